"""Install a program's packages, layered on the packages of the image.

pip is used instead of the image's uv: uv does not see the image's packages from a virtual environment, and would fetch
TensorFlow again.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from training.host.account import as_this_thread
from training.host.disk import inside
from training.host.errors import HostTrouble, ProgramFault, Unreachable
from training.host.paths import Paths
from trainyard.core.jobfile.package_lists import base_of, lines_of, paths_in, text_of

INSTALL_SECONDS = 1800
LOOK_SECONDS = 120
MOST_SCRIPT = 64 * 1024
"""Limit in bytes for scripts that pip has written; these have about 200 bytes."""
MOST_LINES = 4
TELLING = ("error", "\N{MULTIPLICATION SIGN}", "╰─>", "modulenotfounderror", "importerror")
HASH = re.compile(r"\s--hash=sha256:[0-9a-f]{64}")
NAMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\[\], ()!=<>~*+;'\"-]*")
"""A requirement that consists of a package's name, versions, and markers."""
OPTION = re.compile(r"\s-")
"""An option after a requirement, such as --config-settings."""
OTHER_ENCODING = re.compile(
    r"\A(?:[^\n]*\n)?[ \t]*#[^\n]*coding[:=][ \t]*(?!utf-?8\b|us-ascii\b|ascii\b)", re.IGNORECASE
)
"""A comment in the first two lines that lets pip read the list in another encoding than this host."""
UNREACHABLE = re.compile(
    r"connection broken by|\b(429|5\d\d) (Client|Server) Error|HTTP error (429|5\d\d)|ReadTimeoutError|Read timed out"
    r"|ConnectionResetError|ProtocolError"
)
"""pip's messages about a package index that does not answer, or refuses for now."""


def install(requirements: str, paths: Paths) -> str | None:
    """Install the list into a virtual environment of the run, or reuse the one of an earlier run of this host with the
    same list. Packages of the image are not installed again, and need no network. Return the hash of the list; None if
    its packages must not be reused by other runs."""
    list_file = inside(paths.program, requirements)
    if not list_file.is_file():
        raise ProgramFault(
            f"program.requirements names {requirements}, which is not in the program's source archive"
        )
    text = list_file.read_bytes()
    list_hash = hash_of_list(text_of(text))
    if list_hash and (paths.spare / list_hash).is_dir():
        (paths.spare / list_hash).rename(paths.venv)
        return list_hash
    command(
        [str(paths.python), "-m", "venv", "--without-pip", str(paths.venv)], "creating the run's environment"
    )
    layer = site_packages(paths.venv)
    (layer / "trainyard-image.pth").write_text(f"{site_packages(paths.python.parent.parent)}\n")
    # -P: otherwise Python would import the program's own random.py, for example
    pip = [str(paths.venv / "bin/python"), "-P", "-m", "pip", "install", "--no-input", "--no-color"]
    quiet = ["--disable-pip-version-check", "--quiet"]
    command(
        [*pip, *quiet, "--requirement", str(list_file)],
        f"installing {requirements}",
        seconds=INSTALL_SECONDS,
        folder=_base(text, requirements, paths),
    )
    bring_commands(paths.python.parent, paths.venv / "bin")
    return list_hash


def _base(text: bytes, requirements: str, paths: Paths) -> Path:
    """Return the folder that paths in a list are relative to, as in `pip install -r`: the folder of the list, or the
    program's folder if all paths exist there."""
    own = str(PurePosixPath(requirements).parent)
    base = base_of(paths_in(text), own, lambda path: (paths.program / path).exists())
    return paths.program / (own if base is None else base)


def hash_of_list(text: str) -> str | None:
    """Return the hash of a list of requirements; None if it has more than packages of the index: an option, a path, or
    an address."""
    wanted = [HASH.sub("", f" {line}").strip() for line in lines_of(text)]
    is_plain = all(NAMED.fullmatch(line) and not OPTION.search(line) for line in wanted)
    if not is_plain or OTHER_ENCODING.search(text) or paths_in(text.encode()):
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def bring_commands(image: Path, own: Path) -> None:
    """Copy the image's commands to the folder `own`, for the interpreter there: the image's own interpreter does not
    see the packages of that environment. Commands that pip has installed there stay."""
    for script in image.iterdir():
        target = own / script.name
        if script.is_symlink() or not script.is_file() or target.exists():
            continue
        with script.open("rb") as file:
            first, rest = file.readline(), file.read(MOST_SCRIPT)
        if first.startswith(f"#!{image}/python".encode()) and len(rest) < MOST_SCRIPT:
            target.write_bytes(f"#!{own / 'python'}\n".encode() + rest)
            target.chmod(0o755)


def commands_path(paths: Paths, system: str) -> str:
    """Return the PATH of a program: the run's commands, the image's, then the `system`'s."""
    folders = [folder for folder in (paths.venv / "bin", paths.python.parent) if folder.is_dir()]
    return os.pathsep.join([*map(str, folders), system])


def site_packages(environment: Path) -> Path:
    return next((environment / "lib").glob("python3.*/site-packages"))


def python_for(paths: Paths) -> Path:
    """Return the program's interpreter: the one of the run's environment, or the image's if the run has none."""
    own = paths.venv / "bin/python"
    return own if own.exists() else paths.python


def command(
    arguments: Sequence[str], doing: str, *, seconds: float = LOOK_SECONDS, folder: Path | None = None
) -> str:
    """Run a command in the folder and return its output. It runs as the account that this thread acts as, because pip
    may run code of packages. Raises ProgramFault with its most informative lines if it fails."""
    try:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            **as_this_thread(),
        )
    except subprocess.TimeoutExpired as error:
        raise ProgramFault(f"{doing} took longer than {seconds:g} seconds", final=False) from error
    except OSError as error:
        raise HostTrouble(f"{doing} failed: {error}") from error
    if done.returncode:
        output = done.stderr.strip() or done.stdout
        lines = " / ".join(error_lines(output))
        if UNREACHABLE.search(output):
            raise Unreachable(
                f"{doing} failed: {lines}; this host could not reach a package index: add the packages to the image, "
                "or let hosts reach the index"
            )
        raise ProgramFault(f"{doing} failed: {lines}")
    return done.stdout


def error_lines(output: str) -> list[str]:
    """Return pip's first lines with an error, or its last lines without warnings if no line has one."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    worded = [line for line in lines if not line.startswith(("WARNING:", "[notice]", "DEPRECATION:"))]
    named = [line for line in worded if line.lower().startswith(TELLING)]
    return list(dict.fromkeys(named))[:MOST_LINES] or worded[-MOST_LINES:]
