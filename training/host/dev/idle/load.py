"""The load of this host's GPUs and processors, as patrol sees it through CloudWatch."""

import shutil
from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta

from training.host.dev.idle.decision import JudgedBy
from training.host.processes import Process, processor_seconds
from training.host.reporting import gpus

SPAN = timedelta(minutes=5)
"""EC2 publishes the average processor load of this time."""
CPU_WINDOW = timedelta(minutes=15)
"""Patrol ignores the processors with shorter windows, because EC2 publishes too late for them."""


class Load:
    """The load, measured once a minute."""

    def __init__(self) -> None:
        self._before: Mapping[int, Process] | None = None
        self._looked: datetime | None = None
        self._spans: deque[tuple[datetime, float]] = deque()

    def is_busy(self, processes: Mapping[int, Process], judged_by: JudgedBy, now: datetime) -> bool:
        """Return True if a GPU, or the processors over five minutes, are above patrol's thresholds. Raises HostTrouble
        if the driver does not answer."""
        used = self._processors(processes, now)
        if judged_by.window >= CPU_WINDOW and used >= judged_by.idle_cpu_percent:
            return True
        shown = gpus.read_driver() if shutil.which(gpus.QUERY[0]) else {}
        return max(shown.get(gpus.UTILIZATION, ()), default=0.0) >= judged_by.idle_percent

    def _processors(self, processes: Mapping[int, Process], now: datetime) -> float:
        """Return the processor load of the last five minutes, in percent of one processor."""
        if self._before is not None:
            self._spans.append((now, processor_seconds(self._before, processes)))
        if self._looked is None:
            self._looked = now
        self._before = processes
        while self._spans and now - self._spans[0][0] >= SPAN:
            self._looked = self._spans.popleft()[0]
        seconds = (now - self._looked).total_seconds()
        return (
            100 * sum(used for _, used in self._spans) / seconds
            if seconds >= SPAN.total_seconds() * 0.8
            else 0.0
        )
