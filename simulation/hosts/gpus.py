"""The GPU utilization of hosts, as their CloudWatch agents report it once a minute.

At scale PutMetricData is not called: each host records its changes of load, and `Load.minutes` computes the
metrics of any time.
"""

from bisect import bisect_right
from datetime import datetime, timedelta
from typing import Any, Protocol

from simulation.aws.endpoint.api import Answer, Request, ServiceError
from simulation.world.world import Planned, World
from training.host.reporting.gpus import INTERVAL_SECONDS, MEMORY, NAMESPACE, UTILIZATION, datum

BUSY, IDLE = 93.0, 0.0
BUSY_MEGABYTES, IDLE_MEGABYTES = 14000.0, 0.0


class Load:
    """The utilization in percent over time; None while nothing is published."""

    def __init__(self) -> None:
        self._since: list[datetime] = []
        self._percent: list[float | None] = []

    def change(self, now: datetime, percent: float | None) -> None:
        if self.at(now) != percent:
            self._since.append(now)
            self._percent.append(percent)

    def at(self, when: datetime) -> float | None:
        index = bisect_right(self._since, when)
        return self._percent[index - 1] if index else None

    def minutes(self, begin: datetime, end: datetime) -> dict[datetime, float]:
        """Return the metrics from `begin` to before `end`: for each whole minute, the load at its end."""
        found = {}
        minute = begin.replace(second=0, microsecond=0)
        if minute < begin:
            minute += timedelta(minutes=1)
        while minute < end:
            percent = self.at(minute + timedelta(seconds=INTERVAL_SECONDS - 1))
            if percent is not None:
                found[minute] = percent
            minute += timedelta(minutes=1)
        return found


class Publisher(Protocol):
    """The machine of the CloudWatch agent."""

    world: World
    instance: str
    is_cut_off: bool

    @property
    def runs(self) -> bool: ...

    def now(self) -> datetime: ...

    def call(self, service: str, operation: str, **request: Any) -> Answer: ...

    def note(self, what: str, **details: Any) -> None: ...


class Metrics:
    """The metrics of one machine. `put=True` sends them to CloudWatch."""

    def __init__(self, machine: Publisher) -> None:
        self.load = Load()
        self._machine = machine
        self._next: Planned | None = None

    def change(self, *, busy: bool) -> None:
        now = self._machine.world.now
        if self.load.at(now) is not None:
            self.load.change(now, BUSY if busy else IDLE)

    def start(self, *, put: bool) -> None:
        now = self._machine.world.now
        if self.load.at(now) is None:
            self.load.change(now, IDLE)
            if put:
                self._plan()

    def stop(self) -> None:
        self.load.change(self._machine.world.now, None)
        if self._next:
            self._next.cancel()

    def _plan(self) -> None:
        """Plan the next metric. Schedules do not count as pending work."""
        machine, seconds = self._machine, INTERVAL_SECONDS
        self._next = machine.world.after(
            seconds, self._put, what=f"{machine.instance} metrics", standing=True
        )

    def _put(self) -> None:
        machine = self._machine
        percent = self.load.at(machine.world.now)
        if percent is None:
            return
        if machine.runs and not machine.is_cut_off:
            try:
                request = put_request(machine.instance, percent, machine.now())
                machine.call("cloudwatch", "put_metric_data", **request)
            except ServiceError as error:
                machine.note("cannot put metrics", reason=error.code)
        self._plan()


def has_gpus(instance_type: str) -> bool:
    return instance_type[:1] in ("g", "p")


def put_request(instance: str, percent: float, now: datetime) -> Request:
    """Return the PutMetricData request for one minute of a host."""
    megabytes = BUSY_MEGABYTES if percent else IDLE_MEGABYTES
    data = [datum(UTILIZATION, (percent,), instance, now), datum(MEMORY, (megabytes,), instance, now)]
    return {"Namespace": NAMESPACE, "MetricData": data}
