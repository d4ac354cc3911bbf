"""Metrics of hosts from CloudWatch: use of GPUs and processors, and use by people, for many hosts in one call."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from lambdas.aws.calls import list_items
from lambdas.core.patrol.usage import Window
from trainyard.protocol import host_metrics
from trainyard.values.lazy import dataclass

MOST_QUERIES = 500
MOST_POINTS = 100_800
"""Limits of one GetMetricData call."""
LAG = timedelta(minutes=2)
"""The age at which a minute is complete: the agent collects for one minute and sends within another."""


@dataclass(frozen=True)
class Metric:
    """A metric of hosts."""

    namespace: str
    name: str
    seconds: int
    """The length of a period."""

    @property
    def period(self) -> timedelta:
        return timedelta(seconds=self.seconds)

    def begin_of(self, at: datetime) -> datetime:
        """Return the start of the period that contains this time."""
        return datetime.fromtimestamp(at.timestamp() // self.seconds * self.seconds, UTC)


GPUS = Metric(host_metrics.NAMESPACE, host_metrics.GPU_UTILIZATION, host_metrics.GPU_SECONDS)
IN_USE = Metric(host_metrics.NAMESPACE, "InUse", 60)
"""Use of a dev host, as its agent sends it (training/host/dev/idle/decision.py): 0 none, 1 kernels, 2 terminals, 3
both."""
PROCESSORS = Metric(
    host_metrics.PROCESSOR_NAMESPACE, host_metrics.PROCESSOR_UTILIZATION, host_metrics.PROCESSOR_SECONDS
)
"""Basic monitoring of EC2, which is free and needs no agent."""

Series = tuple[Metric, str]
"""A metric of a host."""
SeriesValues = dict[Series, dict[datetime, float]]
"""Values of each metric by the start of their period."""


def read_windows(asked: Collection[Series], *, minutes: int, now: datetime) -> dict[Series, Window]:
    """Return the last `minutes` of each metric, up to the newest minute that is complete in CloudWatch. All these
    metrics have a period of one minute. One call reads up to 500 of them."""
    end = now.replace(second=0, microsecond=0) - LAG + timedelta(minutes=1)
    begin = end - timedelta(minutes=minutes)
    known = _read(asked, begin, end, period=timedelta(minutes=1))
    instants = [begin + timedelta(minutes=n) for n in range(minutes)]
    return {each: Window(tuple(values.get(at) for at in instants)) for each, values in known.items()}


def read_processors(hosts: Collection[str], *, minutes: int, now: datetime) -> dict[str, Window]:
    """Return the processor utilization of each host, for the periods in the window. EC2 may deliver the newest period
    late, so that period is included only if CloudWatch has a value."""
    first = PROCESSORS.begin_of(
        now - timedelta(minutes=minutes) + PROCESSORS.period - timedelta(microseconds=1)
    )
    told = PROCESSORS.begin_of(now) - PROCESSORS.period
    known = _read([(PROCESSORS, host) for host in hosts], first, now, period=PROCESSORS.period)
    sure = [first + n * PROCESSORS.period for n in range((told - first) // PROCESSORS.period)]
    return {
        host: Window(
            (*(values.get(at) for at in sure), *(value for at, value in sorted(values.items()) if at >= told))
        )
        for (_, host), values in known.items()
    }


def _read(asked: Collection[Series], begin: datetime, end: datetime, *, period: timedelta) -> SeriesValues:
    some = max(1, min(MOST_QUERIES, MOST_POINTS // max(1, (end - begin) // period)))
    ordered = sorted(asked, key=lambda each: (each[1], each[0].name))
    found: SeriesValues = {each: {} for each in ordered}
    for first in range(0, len(ordered), some):
        _gather(ordered[first : first + some], begin, end, found)
    return found


def _gather(asked: list[Series], begin: datetime, end: datetime, found: SeriesValues) -> None:
    queries = [_query(n, *each) for n, each in enumerate(asked)]
    request: dict[str, Any] = {"MetricDataQueries": queries, "StartTime": begin, "EndTime": end}
    for result in list_items("cloudwatch", "get_metric_data", "MetricDataResults", **request):
        series = asked[int(result["Id"][1:])]
        known = found[series]
        # The service omits empty lists.
        stamps, values = result.get("Timestamps") or [], result.get("Values") or []
        for at, value in zip(stamps, values, strict=True):
            period = series[0].begin_of(at)
            known[period] = max(value, known.get(period, 0.0))


def _query(n: int, metric: Metric, host: str) -> dict[str, Any]:
    """Return the query of the maximum, which is the busiest GPU of the host."""
    dimensions = [{"Name": "InstanceId", "Value": host}]
    which = {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions}
    return {"Id": f"m{n}", "MetricStat": {"Metric": which, "Period": metric.seconds, "Stat": "Maximum"}}
