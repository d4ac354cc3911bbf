"""CloudWatch: how busy the GPUs of many hosts are and whether people use them, or their processors, in one call."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from lambdas.aws.calls import listed
from lambdas.core.patrol.usage import Window
from trainyard.protocol import host_metrics
from trainyard.values.lazy import dataclass

MOST_QUERIES = 500
MOST_POINTS = 100_800
"""What one GetMetricData takes, and answers."""
LAG = timedelta(minutes=2)
"""How old a minute is before it can be read: the agent collects for one, and sends within another."""


@dataclass(frozen=True)
class Metric:
    """`seconds`: how often it is told."""

    namespace: str
    name: str
    seconds: int

    @property
    def period(self) -> timedelta:
        return timedelta(seconds=self.seconds)

    def begin_of(self, at: datetime) -> datetime:
        """Of the period that this instant is in."""
        return datetime.fromtimestamp(at.timestamp() // self.seconds * self.seconds, UTC)


GPUS = Metric(host_metrics.NAMESPACE, host_metrics.GPU_UTILIZATION, host_metrics.GPU_SECONDS)
IN_USE = Metric(host_metrics.NAMESPACE, "InUse", 60)
"""What agents of dev hosts tell (training/host/dev/idle/decision.py): 0 nobody, 1 kernels, 2 terminals, 3 both."""
PROCESSORS = Metric(
    host_metrics.PROCESSOR_NAMESPACE, host_metrics.PROCESSOR_UTILIZATION, host_metrics.PROCESSOR_SECONDS
)
"""Of basic monitoring, which costs nothing and needs no agent."""

Series = tuple[Metric, str]
"""A metric of a host."""
Known = dict[Series, dict[datetime, float]]
"""What is known of each, by the begin of its period."""


def windows(asked: Collection[Series], *, minutes: int, now: datetime) -> dict[Series, Window]:
    """The window of each that ends where CloudWatch can know everything; a call for each 500. All of these metrics
    are told once a minute."""
    end = now.replace(second=0, microsecond=0) - LAG + timedelta(minutes=1)
    begin = end - timedelta(minutes=minutes)
    known = _read(asked, begin, end, period=timedelta(minutes=1))
    instants = [begin + timedelta(minutes=n) for n in range(minutes)]
    return {each: Window(tuple(values.get(at) for at in instants)) for each, values in known.items()}


def processors(hosts: Collection[str], *, minutes: int, now: datetime) -> dict[str, Window]:
    """The same of all processors of each host, by periods that lie in the window: those that EC2 must have told of,
    which takes it up to a period, and what it has told of later ones."""
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


def _read(asked: Collection[Series], begin: datetime, end: datetime, *, period: timedelta) -> Known:
    some = max(1, min(MOST_QUERIES, MOST_POINTS // max(1, (end - begin) // period)))
    ordered = sorted(asked, key=lambda each: (each[1], each[0].name))
    found: Known = {each: {} for each in ordered}
    for first in range(0, len(ordered), some):
        _gather(ordered[first : first + some], begin, end, found)
    return found


def _gather(asked: list[Series], begin: datetime, end: datetime, found: Known) -> None:
    queries = [_query(n, *each) for n, each in enumerate(asked)]
    request: dict[str, Any] = {"MetricDataQueries": queries, "StartTime": begin, "EndTime": end}
    for result in listed("cloudwatch", "get_metric_data", "MetricDataResults", **request):
        series = asked[int(result["Id"][1:])]
        known = found[series]
        # A list that the service left out is one without values.
        stamps, values = result.get("Timestamps") or [], result.get("Values") or []
        for at, value in zip(stamps, values, strict=True):
            period = series[0].begin_of(at)
            known[period] = max(value, known.get(period, 0.0))


def _query(n: int, metric: Metric, host: str) -> dict[str, Any]:
    """The maximum: of all GPUs of the host, the busiest."""
    dimensions = [{"Name": "InstanceId", "Value": host}]
    which = {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions}
    return {"Id": f"m{n}", "MetricStat": {"Metric": which, "Period": metric.seconds, "Stat": "Maximum"}}
