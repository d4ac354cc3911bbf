"""Processes of a host: starting them, finding those of a unit, ending them.

A unit's processes are found by the INVOCATION_ID in their environment: there are no control groups here.
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
"""Exit code when the program cannot be run, as with systemd."""


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
    """A process in a session of its own; 203 is its exit code when the program cannot be run, as with systemd.
    `control` is its descriptor 3.

    Back when the program runs: until then the child is a copy of init, with init's ears, and would lose a signal.
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
        # nohup's too: a host has booted, whoever has started the local cloud
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
    """Set it as far as the machine allows: a host's root may not raise a hard limit of the machine."""
    most = resource.getrlimit(limit.number)[1]
    hard = lower(limit.hard, most)
    resource.setrlimit(limit.number, (lower(limit.soft, hard), hard))


def lower(first: int, second: int) -> int:
    """Return the stricter of two limits; no limit is RLIM_INFINITY, which is -1."""
    finite = [each for each in (first, second) if each != resource.RLIM_INFINITY]
    return min(finite, default=resource.RLIM_INFINITY)


def largest(text: str) -> int | None:
    """Return the process that the kernel ends first when memory runs out: the one with most of it. Only processes with
    `text` in their command line are considered. Return None if there is none."""
    found = [
        folder for folder in others_alive() if text.encode() in _read(folder / "cmdline").replace(b"\0", b" ")
    ]
    return int(max(found, key=_resident_pages).name) if found else None


def invocation_of(pid: int) -> str:
    """Return the INVOCATION_ID in the environment of a process; empty if it belongs to no unit."""
    variables = _read(Path(f"/proc/{pid}/environ")).split(b"\0")
    found = (line for line in variables if line.startswith(MARK))
    return next(found, MARK).removeprefix(MARK).decode()


def _resident_pages(folder: Path) -> int:
    return int((_read(folder / "statm").split() or [b"0", b"0"])[1])


def others_alive() -> list[Path]:
    """The /proc folders of all processes but init; zombies are not alive."""
    folders = (path for path in Path("/proc").iterdir() if path.name.isdigit() and path.name != "1")
    return [
        folder
        for folder in folders
        if _read(folder / "stat").rpartition(b")")[2].split()[:1] not in ([b"Z"], [])
    ]


def members(invocation: str) -> list[int]:
    """Every process, however far from its unit, that carries its INVOCATION_ID."""
    mark = MARK + invocation.encode()
    return [int(folder.name) for folder in others_alive() if mark in _read(folder / "environ").split(b"\0")]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended while we looked
        return b""


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # ended by itself: what was asked for has happened


def signal_all(number: int) -> None:
    """To every process but init itself."""
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        pass  # there is none


def signal_number(name: str) -> int:
    if name.isdigit():
        return int(name)
    return int(signal.Signals["SIG" + name.upper().removeprefix("SIG")])
