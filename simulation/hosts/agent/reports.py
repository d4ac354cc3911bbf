"""Reports of a program, passed to the agent without a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simulation.hosts.gang import Gang
from simulation.hosts.machine import Machine
from training.host.errors import HostTrouble
from training.host.reporting.metric_points import MetricPoints
from training.host.reporting.metrics import Metrics
from training.host.reporting.progress import ALIVE_SECONDS, EVERY_SECONDS, Progress, metrics_in, resumed_in
from training.host.reporting.scalars import Scalars
from trainyard.core.model.job import Job

LOOK_SECONDS = 0.2


class Reports(Progress):
    """The reports of a program, without a file."""

    @staticmethod
    def of(job: Job, started: float, attempt: int) -> Reports:
        objective = job.objective.metric if job.objective else None
        return Reports(Path("progress"), started=started, scalars=Scalars(objective, MetricPoints(attempt)))

    def take(self, report: dict[str, Any]) -> None:
        self._offset += len(json.dumps(report)) + 1
        self.reported = metrics_in(report)
        self.resumed = resumed_in(report) or self.resumed
        self._fresh = True

    def listen(self, gang: Gang) -> bool:
        """Take the reports since the last call. Return True if there were any."""
        step = gang.step
        if gang.work.silent or step <= gang.restored or step == self.reported.get("step"):
            return False
        for report in (
            gang.work.measured(max(self.step or 0, gang.restored), step) if gang.work.metric else ()
        ):
            self.scalars.take(report, report)
        resumed = gang.work.report_restore(gang.restored)
        self.take(gang.work.report(step) | ({"resumed": resumed} if resumed else {}))
        return True

    def conclude(self, metrics: dict[str, Any] | None, step: int | None) -> dict[str, Any]:
        """Return the last values of a program that has finished, from its metrics.json if it has written one."""
        self.scalars.conclude(metrics or {}, step)
        return (metrics_in(metrics) if metrics else self.reported) | self.scalars.in_signal

    def wait(self, now: float, next_report: float | None) -> float:
        """Return the seconds until there may be something to signal."""
        quiet = now - (self.started if self._sent_at is None else self._sent_at)
        alive = ALIVE_SECONDS - quiet
        if next_report is None:
            return max(LOOK_SECONDS, alive)
        new = next_report if self._sent_at is None else max(EVERY_SECONDS - quiet, next_report)
        return max(LOOK_SECONDS, min(new + 0.01, alive))


class Curve(Metrics):
    """The metrics.json of a run, without a file of the program."""

    def lay_over(self, own: dict[str, Any] | None) -> dict[str, Any] | None:
        self._own = own or {}
        self.send(last=True)
        return None if own is None else self._document()

    def try_to_send(self, machine: Machine) -> None:
        try:
            self.send()
        except HostTrouble as trouble:
            machine.note("cannot send metrics.json", reason=trouble.reason)
