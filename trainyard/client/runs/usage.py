"""The utilization of a run's hosts in CloudWatch: GPUs, GPU memory and processors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

from trainyard.core.model.instance_types import catalog
from trainyard.protocol import host_metrics

if TYPE_CHECKING:
    from trainyard.client.runs.records import Host
    from trainyard.client.session import Session

MOST_HOSTS = 60
"""The newest hosts of a run that are queried: 180 metrics in one request of at most 500."""
MOST_POINTS = 300
"""Points of one curve. A longer run has longer periods."""
KEPT = ((timedelta(days=63), 3600), (timedelta(days=15), 300))
"""The shortest period in seconds that CloudWatch keeps of metrics older than this (AWS, GetMetricData)."""


@dataclass(frozen=True)
class Measure:
    """One metric of hosts. `statistic` is a statistic of CloudWatch. The metric is published every `seconds`
    seconds."""

    title: str
    unit: str
    namespace: str
    metric: str
    seconds: int
    statistic: str = "Average"
    needs_gpu: bool = True

    def period(self, length: timedelta, age: timedelta) -> int:
        """Return the period in seconds with which a curve of this length, `age` ago, has at most MOST_POINTS points."""
        shortest = max(self.seconds, next((seconds for older, seconds in KEPT if age > older), 0))
        return shortest * max(1, ceil(length.total_seconds() / shortest / MOST_POINTS))


MEASURES = (
    Measure("GPU", "%", host_metrics.NAMESPACE, host_metrics.GPU_UTILIZATION, host_metrics.GPU_SECONDS),
    Measure(
        "GPU memory",
        "MB",
        host_metrics.NAMESPACE,
        host_metrics.GPU_MEMORY,
        host_metrics.GPU_SECONDS,
        statistic="Maximum",
    ),
    Measure(
        "Processors",
        "%",
        host_metrics.PROCESSOR_NAMESPACE,
        host_metrics.PROCESSOR_UTILIZATION,
        host_metrics.PROCESSOR_SECONDS,
        needs_gpu=False,
    ),
)


@dataclass(frozen=True)
class Usage:
    """One measure of the hosts: `times` in seconds since 1970, and for each host a value or None at each time."""

    measure: Measure
    times: tuple[int, ...]
    hosts: dict[str, tuple[float | None, ...]]
    """The values by the role of the host, such as `worker 0`."""


def usage_of(session: Session, hosts: Sequence[Host], now: datetime) -> tuple[Usage, ...]:
    """Return the metrics of the hosts in CloudWatch. Measures without a value are left out.

    CloudWatch bills each metric of a request ($0.01 per 1,000). Raise Denied or NoAnswer.
    """
    newest = hosts[-MOST_HOSTS:]
    if not newest:
        return ()
    asked = [(measure, host) for measure in MEASURES for host in newest if _has(host, measure)]
    begin, end = min(host.launched for host in newest), max(host.ended or now for host in newest)
    queries = [
        _query(number, measure, host, measure.period(end - begin, now - begin))
        for number, (measure, host) in enumerate(asked)
    ]
    pages = session.client("cloudwatch").get_paginator("get_metric_data")
    answers: dict[int, dict[int, float]] = {}
    for page in pages.paginate(MetricDataQueries=queries, StartTime=begin, EndTime=end):
        for result in page["MetricDataResults"]:
            known = answers.setdefault(int(result["Id"].removeprefix("m")), {})
            times = (int(at.timestamp()) for at in result["Timestamps"])
            known |= dict(zip(times, result["Values"], strict=True))
    return tuple(_usages(asked, answers))


def _has(host: Host, measure: Measure) -> bool:
    known = catalog().types.get(host.type)
    return not measure.needs_gpu or known is None or known.gpus > 0


def _query(number: int, measure: Measure, host: Host, period: int) -> dict[str, Any]:
    metric = {
        "Namespace": measure.namespace,
        "MetricName": measure.metric,
        "Dimensions": [{"Name": "InstanceId", "Value": host.instance}],
    }
    statistic = {"Metric": metric, "Period": period, "Stat": measure.statistic}
    return {"Id": f"m{number}", "MetricStat": statistic}


def _usages(asked: Sequence[tuple[Measure, Host]], answers: dict[int, dict[int, float]]) -> Iterator[Usage]:
    for measure in MEASURES:
        values: dict[str, dict[int, float]] = {}
        for number, (each, host) in enumerate(asked):
            if each is measure and answers.get(
                number
            ):  # a host in the place of a lost one continues its curve
                values.setdefault(_name_host(host), {}).update(answers[number])
        times = tuple(sorted({at for known in values.values() for at in known}))
        if times:
            yield Usage(
                measure, times, {name: tuple(known.get(at) for at in times) for name, known in values.items()}
            )


def _name_host(host: Host) -> str:
    name = host.role or host.instance
    return f"{name}, attempt {host.attempt}" if host.attempt > 1 else name
