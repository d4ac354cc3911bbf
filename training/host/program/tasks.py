"""The limit of a program's processes and threads. A program that starts them without end (a fork bomb) fails, and the
agent of its host can still report the failure."""

import os
from collections.abc import Callable
from dataclasses import dataclass

FEWEST = 4096
PER_CPU = 512
"""Frameworks start three to four threads per processor in each process, and a process per GPU."""
NEARLY = 0.95
LOOK_SECONDS = 20.0
LOOKS = 3
"""Consecutive looks at a program that is at its limit before it is ended."""


def most_tasks() -> int:
    """Return the limit of processes and threads of one program on this host."""
    return max(FEWEST, PER_CPU * (os.cpu_count() or 1))


@dataclass(slots=True)
class TaskLimit:
    """Count a program's tasks every LOOK_SECONDS."""

    most: int
    _looked_at: float = float("-inf")
    _looks: int = 0

    @property
    def is_exceeded(self) -> bool:
        """Return True once the program has stayed at its limit for LOOKS looks."""
        return self._looks >= LOOKS

    def look(self, now: float, count: Callable[[], int]) -> bool:
        """Return True once the program is to be ended. `count` returns how many tasks it has."""
        if now - self._looked_at >= LOOK_SECONDS and not self.is_exceeded:
            self._looked_at = now
            at_limit = count() >= NEARLY * self.most
            self._looks = self._looks + 1 if at_limit else 0
        return self.is_exceeded
