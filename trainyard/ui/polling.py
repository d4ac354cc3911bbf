"""The log of a run for the page: its last lines and new lines, read once for all viewers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice

from trainyard.client import Yard
from trainyard.client.runs.logs import LogLine, RunLogs

MOST_LINES = 2_000
"""Lines that a new viewer receives. The run's files have all lines."""


@dataclass
class RunLog:
    """The log of one run. Lines are numbered as they are read."""

    run: str
    total: int = 0
    """The number of the next line."""
    _lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=MOST_LINES))
    _logs: RunLogs | None = None
    _is_whole: bool = False

    def look(self, yard: Yard, *, builder: bool, over: bool) -> RunLog:
        """Read new lines; at first, only the last lines. `builder` selects the log of a bake. Not thread-safe."""
        if self._logs is None:
            hosts = ("builder",) if builder else ()
            self._logs = RunLogs(yard.bucket, self.run, 1, hosts, later=True)
            lines = list(self._logs.new(MOST_LINES))
        else:
            lines = list(self._logs.new())
        if over and not lines and not self._is_whole:
            lines, self._is_whole = self._logs.incomplete_lines(), True
        self._lines.extend(lines)
        self.total += len(lines)
        return self

    def since(self, number: int) -> list[LogLine]:
        """Return the cached lines from this number on."""
        missing = max(self.total - max(number, 0), 0)
        return list(islice(self._lines, max(len(self._lines) - missing, 0), None))
