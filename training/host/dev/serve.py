"""`python -m training.host.dev.serve`: become JupyterLab, as the account of shells. Its unit runs this.

JupyterLab listens only on the loopback interface, and requires a token that is created here, once per boot. Its kernels
run in an environment in that account's home, layered on the hosts' Python. Packages that users install lie there, on
the disk.
"""

import os
import pwd
import secrets
import subprocess
import sys
from pathlib import Path

from training.host.dev import shell_account
from training.host.errors import HostTrouble
from training.host.orders import write_whole
from training.host.paths import Paths
from training.host.program.packages import bring_commands, site_packages

ADDRESS, PORT = "127.0.0.1", 8888
ENVIRONMENT = ".venv"
"""The environment's path below the account's home."""
LAYER = "trainyard-image.pth"
MOST_LOG = 1 << 20
"""A start rotates a log of more than this many bytes."""
INHERITED = ("INVOCATION_ID", "AWS_")
"""Prefixes of inherited variables: one identifies the unit's processes, the others tell commands where AWS is."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def main() -> int:
    paths = Paths()
    try:
        account = shell_account.find()
        give_folders(paths, account)
        shell_account.become(account)
        _become_server(paths, account)
    except (HostTrouble, OSError) as trouble:
        print(f"JupyterLab cannot be started: {trouble}", file=sys.stderr)
    return 1


def give_folders(paths: Paths, account: pwd.struct_passwd) -> None:
    """Give the account the files outside its home that the server writes, and send all further output to its log."""
    paths.jupyter_run.mkdir(mode=0o700, exist_ok=True)
    os.chown(paths.jupyter_run, account.pw_uid, account.pw_gid)
    log = paths.jupyter_log
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > MOST_LOG:
        log.replace(log.with_suffix(".log.1"))
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.fchown(descriptor, account.pw_uid, account.pw_gid)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)


def _become_server(paths: Paths, account: pwd.struct_passwd) -> None:
    home = Path(account.pw_dir)
    make_token(paths)
    kernels = make_environment(paths, home)
    os.chdir(home)
    command = [str(paths.jupyter / "bin/jupyter-lab"), *options(home)]
    inherited = {name: value for name, value in os.environ.items() if name.startswith(INHERITED)}
    os.execve(  # noqa: S606 - no shell is wanted
        command[0],
        command,
        {**inherited, **shell_account.environment(account), **variables(paths, kernels)},
    )


def options(home: Path) -> list[str]:
    """Return the options that no user's setting may change. Only this port is forwarded."""
    values = {
        "ServerApp.ip": ADDRESS,
        "ServerApp.port": str(PORT),
        "ServerApp.port_retries": "0",
        "ServerApp.open_browser": "False",
        "ServerApp.allow_root": "True",
        "ServerApp.root_dir": str(home),
    }
    return [f"--{name}={value}" for name, value in values.items()]


def variables(paths: Paths, kernels: Path) -> dict[str, str]:
    """Return the variables for the server, its kernels, and its terminals."""
    path = [kernels / "bin", paths.python.parent, paths.jupyter / "bin"]
    return {
        "PATH": os.pathsep.join([*map(str, path), SYSTEM_PATH]),
        "JUPYTER_TOKEN_FILE": str(paths.jupyter_token),
        "JUPYTER_RUNTIME_DIR": str(paths.jupyter_run / "runtime"),
        "TF_CPP_MIN_LOG_LEVEL": "1",  # as for programs
    }


def make_token(paths: Paths) -> None:
    """Create the token, once per boot, so that an open page outlives the server."""
    if not paths.jupyter_token.exists():
        write_whole(paths.jupyter_token, secrets.token_urlsafe(32), mode=0o600)


def make_environment(paths: Paths, home: Path) -> Path:
    """Create the environment of kernels and terminals. An existing one keeps its packages. Raises HostTrouble."""
    environment = home / ENVIRONMENT
    command = [str(paths.python), "-m", "venv", "--without-pip", str(environment)]
    made = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if made.returncode:
        output = (made.stderr or made.stdout).strip()
        raise HostTrouble(f"the environment {environment} could not be created: {output}")
    image = site_packages(paths.python.parents[1])
    (environment / image.relative_to(paths.python.parents[1]) / LAYER).write_text(f"{image}\n")
    bring_commands(paths.python.parent, environment / "bin")
    return environment


if __name__ == "__main__":
    sys.exit(main())
