"""CloudWatch: how busy the GPUs of many hosts are, or their processors, in one call."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from lambdas.aws.calls import listed
from lambdas.core.patrol.verdict import Window
from trainyard.core.values.lazy import dataclass

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


GPUS = Metric("Trainyard", "nvidia_smi_utilization_gpu", 60)
PROCESSORS = Metric("AWS/EC2", "CPUUtilization", 300)
"""Of basic monitoring, which costs nothing and needs no agent."""


def windows(hosts: Collection[str], *, minutes: int, now: datetime) -> dict[str, Window]:
    """The window of each host that ends where CloudWatch can know everything; a call for each 500 hosts."""
    end = now.replace(second=0, microsecond=0) - LAG + timedelta(minutes=1)
    begin = end - timedelta(minutes=minutes)
    known = _read(GPUS, hosts, begin, end)
    instants = [begin + timedelta(minutes=n) for n in range(minutes)]
    return {host: Window(tuple(values.get(at) for at in instants)) for host, values in known.items()}


def processors(hosts: Collection[str], *, minutes: int, now: datetime) -> dict[str, Window]:
    """The same of all processors of each host, by periods that lie in the window: those that EC2 must have told of,
    which takes it up to a period, and what it has told of later ones."""
    first = PROCESSORS.begin_of(
        now - timedelta(minutes=minutes) + PROCESSORS.period - timedelta(microseconds=1)
    )
    told = PROCESSORS.begin_of(now) - PROCESSORS.period
    known = _read(PROCESSORS, hosts, first, now)
    sure = [first + n * PROCESSORS.period for n in range((told - first) // PROCESSORS.period)]
    return {
        host: Window(
            (*(values.get(at) for at in sure), *(value for at, value in sorted(values.items()) if at >= told))
        )
        for host, values in known.items()
    }


def _read(
    metric: Metric, hosts: Collection[str], begin: datetime, end: datetime
) -> dict[str, dict[datetime, float]]:
    """What is known of each host, by the begin of its period."""
    some = max(1, min(MOST_QUERIES, MOST_POINTS // max(1, (end - begin) // metric.period)))
    ordered = sorted(hosts)
    found: dict[str, dict[datetime, float]] = {host: {} for host in ordered}
    for first in range(0, len(ordered), some):
        _gather(metric, ordered[first : first + some], begin, end, found)
    return found


def _gather(
    metric: Metric, hosts: list[str], begin: datetime, end: datetime, found: dict[str, dict[datetime, float]]
) -> None:
    queries = [_query(metric, n, host) for n, host in enumerate(hosts)]
    request: dict[str, Any] = {"MetricDataQueries": queries, "StartTime": begin, "EndTime": end}
    for result in listed("cloudwatch", "get_metric_data", "MetricDataResults", **request):
        known = found[hosts[int(result["Id"][1:])]]
        # A list that the service left out is one without values.
        stamps, values = result.get("Timestamps") or [], result.get("Values") or []
        for at, value in zip(stamps, values, strict=True):
            period = metric.begin_of(at)
            known[period] = max(value, known.get(period, 0.0))


def _query(metric: Metric, n: int, host: str) -> dict[str, Any]:
    """The maximum over all GPUs of the host."""
    dimensions = [{"Name": "InstanceId", "Value": host}]
    which = {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions}
    return {"Id": f"m{n}", "MetricStat": {"Metric": which, "Period": metric.seconds, "Stat": "Maximum"}}
