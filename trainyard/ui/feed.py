"""The log of a run as the page shows it: its last lines, and those that come, read once for all who look."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter

from trainyard.client import Yard, logs
from trainyard.client.logs import LogLine, Tail

KEPT = 2_000
"""Lines that somebody who comes later is shown; all of them are in the files that the run leaves."""
FIRST = 2**18
"""Bytes of the end of a log that are read when it is first looked at, however long it is."""


@dataclass
class Feed:
    """One run's. Every line has a number, in the order in which they were read; `total` is the next one's."""

    run: str
    total: int = 0
    _lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=KEPT))
    _known: dict[str, Tail] = field(default_factory=dict)

    def look(self, yard: Yard, *, over: bool) -> Feed:
        """Read what is new. Not by two threads at once."""
        bucket, prefix = yard.bucket, f"runs/{self.run}/"
        lines: list[LogLine] = []
        for tail, size in logs.tails_under(bucket, prefix, lambda *_: True, self._known):
            if not tail.offset and size > FIRST:
                tail.offset = size - FIRST
            tail.bucket = bucket  # this thread's
            lines += tail.more(size, whole=over)
        lines.sort(key=attrgetter("at"))
        self._lines.extend(lines)
        self.total += len(lines)
        return self

    def since(self, number: int) -> list[LogLine]:
        """The lines from this number on that are kept."""
        missing = max(self.total - max(number, 0), 0)
        return list(islice(self._lines, max(len(self._lines) - missing, 0), None))
