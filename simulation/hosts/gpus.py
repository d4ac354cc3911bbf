"""How busy the GPUs of the hosts are, as the CloudWatch agent of each tells it once a minute.

At scale nobody calls PutMetricData: what each host does is noted when it changes, and `Load.minutes` answers for any
time what would have been put.
"""

from bisect import bisect_right
from datetime import datetime, timedelta
from typing import Any

from training.host.reporting.gpus import INTERVAL_SECONDS, MEMORY, NAMESPACE, UTILIZATION, datum

BUSY, IDLE = 93.0, 0.0
BUSY_MEGABYTES, IDLE_MEGABYTES = 14000.0, 0.0


class Load:
    """Percent by time: None while nothing is published."""

    def __init__(self) -> None:
        self._since: list[datetime] = []
        self._percent: list[float | None] = []

    def change(self, now: datetime, percent: float | None) -> None:
        if self.at(now) != percent:
            self._since.append(now)
            self._percent.append(percent)

    def at(self, when: datetime) -> float | None:
        place = bisect_right(self._since, when)
        return self._percent[place - 1] if place else None

    def minutes(self, begin: datetime, end: datetime) -> dict[datetime, float]:
        """What was put for each whole minute from `begin` up to before `end`: the load at the minute's end."""
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


def has_gpus(instance_type: str) -> bool:
    return instance_type[:1] in ("g", "p")


def put_request(instance: str, percent: float, now: datetime) -> dict[str, Any]:
    """PutMetricData of one host's minute."""
    megabytes = BUSY_MEGABYTES if percent else IDLE_MEGABYTES
    data = [datum(UTILIZATION, (percent,), instance, now), datum(MEMORY, (megabytes,), instance, now)]
    return {"Namespace": NAMESPACE, "MetricData": data}
