"""Decide if a program hangs, from signs of its work. Pure."""

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from trainyard.protocol.times import PROGRAM_SILENT

LOOK_SECONDS = 60.0
SILENT_SECONDS = PROGRAM_SILENT.total_seconds()
"""A program hangs after this time without signs of work: one step in ten minutes is slow, but not a hang. A gang that
hangs ends within 15 min, including the program's time to leave."""
WORKING_SHARE = 0.05
"""A program works if it has used at least this share of one processor since the last look. Programs that only wait and
poll (gRPC, heartbeats, a data loader's queue) use one percent or less."""
WORKING_GPU_PERCENT = 5.0
"""A program works if it uses at least this percentage of a GPU. A GPU that only holds memory shows up to 2 %."""
LINES_REMEMBERED = 500
TIME = re.compile(
    r"^[IWEF]\d{4} \d\d:\d\d:[\d.]+\s+\d+ |\d{4}-\d\d-\d\d[T ]|\b\d\d:\d\d:\d\d(?:[.,:]\d+)?Z?", re.ASCII
)
"""The time in lines of TensorFlow, absl, and Python's logging."""
HANGS = (
    f"for {SILENT_SECONDS / 60:g} minutes the program has shown no work: no progress, no new line or file, and hardly "
    "any use of a processor or GPU. It hangs and will be ended"
)


@dataclass(slots=True)
class Silence:
    """Detects a hang, with one look per minute. It counts looks instead of time, because a host may have been paused
    itself."""

    _looked_at: float = float("-inf")
    _signs: Hashable = None
    _in_vain: int = 0

    def hangs(self, now: float, signs: Callable[[], Hashable]) -> bool:
        """Return True if the result of `signs` has not changed for SILENT_SECONDS. It changes while the program
        works."""
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            before, self._signs = self._signs, signs()
            self._in_vain = self._in_vain + 1 if self._signs == before else 0
        return self._in_vain * LOOK_SECONDS >= SILENT_SECONDS

    @property
    def works(self) -> bool:
        """True if the last look found a change."""
        return self._in_vain == 0 and self._signs is not None


@dataclass(slots=True)
class Effort:
    """Counts the looks since whose predecessor a program has used a significant share of a processor."""

    looks: int = 0
    _at: float | None = None
    _seconds: float = 0.0

    def look(self, now: float, seconds: float) -> None:
        """Count a look. `seconds` is the processor time of all its processes so far, which falls if some have ended."""
        if self._at is not None and seconds - self._seconds >= WORKING_SHARE * max(now - self._at, 1e-9):
            self.looks += 1
        self._at, self._seconds = now, seconds


@dataclass(slots=True)
class NewLines:
    """Counts new lines. A line that a program repeats while it waits (`CreateSession still waiting`, `global_step/sec:
    0`) is not work, even if its time differs."""

    count: int = 0
    _recent: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def add(self, line: str) -> None:
        text = TIME.sub("", line)
        if text not in self._recent:
            self.count += 1
        self._recent[text] = None
        self._recent.move_to_end(text)
        if len(self._recent) > LINES_REMEMBERED:
            self._recent.popitem(last=False)
