"""A host's processes, seen and held still from outside: what runs on it can neither notice nor prevent it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

MOST_SECONDS = 10.0
POLL_SECONDS = 0.01
STILL = frozenset("TtZX")
"""States of a process, as /proc names them, in which it does nothing: stopped, or ended."""


def stop_all(boot: int) -> list[int]:
    """Stop every process of the host that this boot process started; those that ran until now.

    Again and again until none runs: a process may have started another just before it was stopped. One that waits
    for a disk stops when that has answered, so it is not waited for without end.
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
    """The opposite, for those that `stop_all` stopped."""
    for pid in held:
        _send(pid, signal.SIGCONT)


def end(boot: int) -> None:
    """Kill the host's init, and with it, by the kernel, all that runs there: the boot process, whose child it is, ends
    when nothing is left. One that has no init yet is killed itself, its group with it: it may just be making one."""
    for pid in _children(boot) or [-boot]:
        _send(pid, signal.SIGKILL)


def namespace_inside(boot: int) -> str | None:
    """The process namespace of the host that this boot process started; None when it is gone."""
    return _link(f"/proc/{boot}/ns/pid_for_children")


def namespace_of(pid: int) -> str | None:
    """The process namespace that this process is in; None when it has ended."""
    return _link(f"/proc/{pid}/ns/pid")


def processes() -> list[int]:
    """Every process that this machine's /proc shows, the oldest first."""
    return sorted(int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit())


def stat_of(pid: int) -> list[str]:
    """What /proc/PID/stat says, from the state on; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _running(boot: int) -> list[int]:
    """The host's processes that are neither stopped nor over, its init first."""
    namespace = namespace_inside(boot)
    if namespace is None:
        return []
    return [pid for pid in processes() if namespace_of(pid) == namespace and _state(pid) not in STILL]


def _children(pid: int) -> list[int]:
    """None of one that has ended."""
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
        pass  # it has ended, which is still enough
