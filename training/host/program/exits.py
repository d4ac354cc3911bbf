"""How a program's Python processes ended, as each notes when it ends (startup/sitecustomize.py). Pure but for the read.

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
"""Exceptions by which a launcher says that the process that it has started failed: that process knows why."""


@dataclass(frozen=True, slots=True)
class Exit:
    """`exception`: what nothing caught, as Python prints it; None for an end by itself or by a SystemExit."""

    pid: int
    parent: int
    exception: str | None

    @property
    def is_a_launchers(self) -> bool:
        """Return True for a process that only says that another one failed."""
        return bool(self.exception) and str(self.exception).startswith(LAUNCHERS_OWN)


def read(path: Path) -> tuple[Exit, ...]:
    """Return the exits in the order in which they were noted. The file is the program's: a line of any other form is
    left out."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            lines = file.read(MOST_BYTES).splitlines()
    except OSError:
        return ()
    return tuple(found for line in lines if (found := _parsed(line)))


def _parsed(line: bytes) -> Exit | None:
    try:
        noted = json.loads(line)
        said = noted["exception"]
        return Exit(int(noted["pid"]), int(noted["parent"]), None if said is None else str(said))
    except (ValueError, TypeError, KeyError):
        return None


def of_program(exits: Sequence[Exit], *, keeper: int, pid: int | None) -> Exit | None:
    """Return the exit that tells why the program ended: its own, or, of a shell or a launcher, that of the process that
    it started and that ended last; None if none is known. `keeper`: the process that started the program; `pid`: the
    program's own process, if it lived long enough to be seen."""
    own = next((each for each in reversed(exits) if each.parent == keeper or each.pid == pid), None)
    if own and not own.is_a_launchers:
        return own
    below = [each for each in exits if each.parent == (own.pid if own else pid)]
    if own:  # the launcher says that one of them failed
        below = [each for each in below if each.exception] or [
            each for each in exits if each.exception and each != own
        ]
    return below[-1] if below else own
