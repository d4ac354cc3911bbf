"""The log of a run as the page shows it: its last lines, and those that come, read once for all who look."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice

from trainyard.client import Yard
from trainyard.client.runs.logs import LogLine, RunLogs

KEPT = 2_000
"""Lines that somebody who comes later is shown; all of them are in the files that the run leaves."""


@dataclass
class RunLog:
    """One run's. Every line has a number, in the order in which they were read; `total` is the next one's."""

    run: str
    total: int = 0
    _lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=KEPT))
    _logs: RunLogs | None = None
    _is_whole: bool = False

    def look(self, yard: Yard, *, builder: bool, over: bool) -> RunLog:
        """Read what is new, at first the last lines alone; of a bake its builder's. Not by two threads at once."""
        if self._logs is None:
            hosts = ("builder",) if builder else ()
            self._logs = RunLogs(yard.bucket, self.run, 1, hosts, later=True)
            lines = list(self._logs.new(KEPT))
        else:
            lines = list(self._logs.new())
        if over and not lines and not self._is_whole:
            lines, self._is_whole = self._logs.under_way(), True
        self._lines.extend(lines)
        self.total += len(lines)
        return self

    def since(self, number: int) -> list[LogLine]:
        """The lines from this number on that are kept."""
        missing = max(self.total - max(number, 0), 0)
        return list(islice(self._lines, max(len(self._lines) - missing, 0), None))
