"""Start, find and end processes of a host.

The INVOCATION_ID in a process's environment identifies its unit, because the host has no control groups.
"""

from __future__ import annotations

import os
import pwd
import resource
import signal
from collections.abc import Sequence
from pathlib import Path

from localcloud.machine.guest.units import ResourceLimit

CONTROL = 3
MARK = b"INVOCATION_ID="
CANNOT_RUN = 203
"""Exit code of systemd if a program cannot be run."""


def spawn(
    argv: list[str],
    env: dict[str, str],
    *,
    stdout: int,
    stderr: int,
    cwd: str = "/",
    user: str = "",
    control: int | None = None,
    limits: Sequence[ResourceLimit] = (),
) -> int:
    """Start a process in its own session, with `control` as descriptor 3. It exits with 203 if it cannot run.

    Returns once the program runs. Until then the child is a copy of init with init's signal handlers and would lose
    signals.
    """
    runs, starting = os.pipe()
    pid = os.fork()
    if pid:
        os.close(starting)
        os.read(runs, 1)  # both ends close on exec, and the child never writes
        os.close(runs)
        return pid
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        # also SIGHUP, which nohup ignores when it starts the local cloud
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        null = os.open("/dev/null", os.O_RDONLY)
        for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
            os.dup2(source, target)
        if control is not None:
            os.dup2(control, CONTROL)
            os.set_inheritable(CONTROL, True)
        os.chdir(cwd)
        for each in limits:
            set_limit(each)
        if user:
            account = pwd.getpwnam(user)
            os.initgroups(account.pw_name, account.pw_gid)
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
        os.execvpe(argv[0], argv, env)  # noqa: S606
    except BaseException as error:  # noqa: BLE001 - a forked child must never return into init
        os.write(2, f"{argv[0]}: {error}\n".encode())
    finally:
        os._exit(CANNOT_RUN)
    raise AssertionError("unreachable")


def set_limit(limit: ResourceLimit) -> None:
    """Set a limit as far as the machine allows: a host's root cannot raise hard limits of the machine."""
    most = resource.getrlimit(limit.number)[1]
    hard = lower(limit.hard, most)
    resource.setrlimit(limit.number, (lower(limit.soft, hard), hard))


def lower(first: int, second: int) -> int:
    """Return the stricter of two limits. RLIM_INFINITY is -1."""
    finite = [each for each in (first, second) if each != resource.RLIM_INFINITY]
    return min(finite, default=resource.RLIM_INFINITY)


def largest(text: str) -> int | None:
    """Return the process with the most memory, which the kernel kills first when memory runs out.

    Consider only processes with `text` in their command line. Return None without a match.
    """
    found = [
        folder for folder in others_alive() if text.encode() in _read(folder / "cmdline").replace(b"\0", b" ")
    ]
    return int(max(found, key=_resident_pages).name) if found else None


def invocation_of(pid: int) -> str:
    """Return the INVOCATION_ID in the environment of a process, or an empty string."""
    variables = _read(Path(f"/proc/{pid}/environ")).split(b"\0")
    found = (line for line in variables if line.startswith(MARK))
    return next(found, MARK).removeprefix(MARK).decode()


def _resident_pages(folder: Path) -> int:
    return int((_read(folder / "statm").split() or [b"0", b"0"])[1])


def others_alive() -> list[Path]:
    """Return the /proc folders of all living processes other than init."""
    folders = (path for path in Path("/proc").iterdir() if path.name.isdigit() and path.name != "1")
    return [
        folder
        for folder in folders
        if _read(folder / "stat").rpartition(b")")[2].split()[:1] not in ([b"Z"], [])
    ]


def members(invocation: str) -> list[int]:
    """Return all processes with the unit's INVOCATION_ID, including distant descendants."""
    mark = MARK + invocation.encode()
    return [int(folder.name) for folder in others_alive() if mark in _read(folder / "environ").split(b"\0")]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended between listing and reading
        return b""


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has ended already


def signal_all(number: int) -> None:
    """Send a signal to every process except init."""
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        pass  # no process is left


def signal_number(name: str) -> int:
    if name.isdigit():
        return int(name)
    return int(signal.Signals["SIG" + name.upper().removeprefix("SIG")])
