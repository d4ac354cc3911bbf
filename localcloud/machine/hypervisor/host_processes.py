"""Control of a host's processes from outside, where programs on the host can neither notice nor prevent it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

MOST_SECONDS = 10.0
POLL_SECONDS = 0.01
STOPPED_STATES = frozenset("TtZX")
"""States in /proc of a process that does nothing: stopped or ended."""


def stop_all(boot: int) -> list[int]:
    """Stop all processes of the host under this boot process. Return those that were running.

    Repeats until none runs, because a process may start another before it stops. Gives up after a while, because a
    process that waits for a disk stops only when the disk answers.
    """
    held: list[int] = []
    deadline = time.monotonic() + MOST_SECONDS
    while (running := _running(boot)) and time.monotonic() < deadline:
        for pid in running:
            _send(pid, signal.SIGSTOP)
        held += [pid for pid in running if pid not in held]
        time.sleep(POLL_SECONDS)
    return held


def continue_all(held: list[int]) -> None:
    """Continue processes that `stop_all` stopped."""
    for pid in held:
        _send(pid, signal.SIGCONT)


def end(boot: int) -> None:
    """Kill the host's init, with which the kernel ends all its processes; the boot process ends last.

    Without an init yet, kill the boot process and its group, because it may be about to start one.
    """
    for pid in _children(boot) or [-boot]:
        _send(pid, signal.SIGKILL)


def namespace_inside(boot: int) -> str | None:
    """Return the process namespace of the host under this boot process, or None if it is gone."""
    return _link(f"/proc/{boot}/ns/pid_for_children")


def namespace_of(pid: int) -> str | None:
    """Return the process namespace of a process, or None if it has ended."""
    return _link(f"/proc/{pid}/ns/pid")


def processes() -> list[int]:
    """Return all processes in this machine's /proc, oldest first."""
    return sorted(int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit())


def stat_of(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on, or an empty list if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _running(boot: int) -> list[int]:
    """Return the host's running processes, init first."""
    namespace = namespace_inside(boot)
    if namespace is None:
        return []
    return [
        pid for pid in processes() if namespace_of(pid) == namespace and _state(pid) not in STOPPED_STATES
    ]


def _children(pid: int) -> list[int]:
    """Return the children of a process, which is empty once it has ended."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _link(path: str) -> str | None:
    try:
        return str(Path(path).readlink())
    except OSError:
        return None


def _state(pid: int) -> str:
    return next(iter(stat_of(pid)), "X")


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has ended, which is sufficient
