"""Whether a program still goes on: by the work that it shows, not by its being there. Pure."""

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from trainyard.protocol.times import PROGRAM_SILENT

LOOK_SECONDS = 60.0
SILENT_SECONDS = PROGRAM_SILENT.total_seconds()
"""How long a program may show no work: one step in ten minutes is slow, and no hang. With the time that it then gets to
leave, a gang that hangs is over within a quarter of an hour."""
WORKING_SHARE = 0.05
"""From which share of one processor on, between two looks, a program works. What waits and asks again and again (gRPC's
polling, heartbeats, a data loader's queue) takes a hundredth and less."""
WORKING_GPU_PERCENT = 5.0
"""The same of a GPU. One that only holds memory was seen at 2 %."""
LINES_REMEMBERED = 500
TIME = re.compile(
    r"^[IWEF]\d{4} \d\d:\d\d:[\d.]+\s+\d+ |\d{4}-\d\d-\d\d[T ]|\b\d\d:\d\d:\d\d(?:[.,:]\d+)?Z?", re.ASCII
)
"""When a line was printed, as TensorFlow, absl and Python's logging have it."""
SAID = (
    f"for {SILENT_SECONDS / 60:g} minutes the program has shown no work: no progress, no new line or file, no real "
    "share of a processor or GPU. It hangs, and is ended"
)


@dataclass(slots=True)
class Silence:
    """Looks once a minute. The looks count, not the clock: a host that stood still itself blames no program for it."""

    _looked_at: float = float("-inf")
    _signs: Hashable = None
    _in_vain: int = 0

    def hangs(self, now: float, signs: Callable[[], Hashable]) -> bool:
        """Whether nothing of what `signs` answers has changed for so long; it changes while the program goes on."""
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            before, self._signs = self._signs, signs()
            self._in_vain = self._in_vain + 1 if self._signs == before else 0
        return self._in_vain * LOOK_SECONDS >= SILENT_SECONDS

    @property
    def works(self) -> bool:
        """Whether the last look has seen something new."""
        return self._in_vain == 0 and self._signs is not None


@dataclass(slots=True)
class Effort:
    """Counts the looks between which a program has used a real share of a processor."""

    looks: int = 0
    _at: float | None = None
    _seconds: float = 0.0

    def look(self, now: float, seconds: float) -> None:
        """`seconds` is what all its processes have used so far; less than before when some of them have ended."""
        if self._at is not None and seconds - self._seconds >= WORKING_SHARE * max(now - self._at, 1e-9):
            self.looks += 1
        self._at, self._seconds = now, seconds


@dataclass(slots=True)
class NewLines:
    """Counts the lines that say something new. What a program prints again and again while it waits (`CreateSession
    still waiting`, `global_step/sec: 0`) is no work, whatever the time before it."""

    count: int = 0
    _said: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def hear(self, line: str) -> None:
        text = TIME.sub("", line)
        if text not in self._said:
            self.count += 1
        self._said[text] = None
        self._said.move_to_end(text)
        if len(self._said) > LINES_REMEMBERED:
            self._said.popitem(last=False)
