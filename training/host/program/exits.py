"""The ends of a program's Python processes, which each process notes itself (startup/sitecustomize.py).

A process that is killed, or that leaves by `os._exit`, notes nothing.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 4 * 1024**2
LAUNCHERS_OWN = (
    "subprocess.CalledProcessError",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError",
    "torch.distributed.elastic.multiprocessing.api.SignalException",
)
"""Exceptions of launchers about a failed process that they had started. The process itself has the reason."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of one Python process."""

    pid: int
    parent: int
    exception: str | None
    """The uncaught exception as Python prints it; None for a normal end or a SystemExit."""

    @property
    def is_a_launchers(self) -> bool:
        """True if the process only reports that another one failed."""
        return bool(self.exception) and str(self.exception).startswith(LAUNCHERS_OWN)


def read(path: Path) -> tuple[Exit, ...]:
    """Return the exits in the order of their notes. The program may write to the file, so lines of any other form are
    skipped."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            lines = file.read(MOST_BYTES).splitlines()
    except OSError:
        return ()
    return tuple(found for line in lines if (found := _parse(line)))


def _parse(line: bytes) -> Exit | None:
    try:
        noted = json.loads(line)
        exception = noted["exception"]
        return Exit(int(noted["pid"]), int(noted["parent"]), None if exception is None else str(exception))
    except (ValueError, TypeError, KeyError):
        return None


def find_exit(exits: Sequence[Exit], *, keeper: int, pid: int | None) -> Exit | None:
    """Return the exit with the reason of the program's end, or None. For a shell or a launcher, that is the exit of the
    process below it that ended last. `keeper` is the process that started the program, `pid` the program's own process
    if it lived long enough to be seen."""
    own = next((each for each in reversed(exits) if each.parent == keeper or each.pid == pid), None)
    if own and not own.is_a_launchers:
        return own
    below = [each for each in exits if each.parent == (own.pid if own else pid)]
    if own:  # a launcher: one of the processes below it failed
        below = [each for each in below if each.exception] or [
            each for each in exits if each.exception and each != own
        ]
    return below[-1] if below else own
