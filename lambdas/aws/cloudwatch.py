"""CloudWatch: the GPU metrics of many hosts in one call."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from lambdas.aws.calls import listed
from lambdas.core.patrol.verdict import Window

NAMESPACE, METRIC = "Trainyard", "nvidia_smi_utilization_gpu"
PERIOD = 60
MOST_QUERIES = 500
MOST_POINTS = 100_800
"""What one GetMetricData takes, and answers."""
LAG = timedelta(minutes=2)
"""How old a minute is before it can be read: the agent collects for one, and sends within another."""


def windows(hosts: Collection[str], *, minutes: int, now: datetime) -> dict[str, Window]:
    """The window of each host that ends where CloudWatch can know everything; a call for each 500 hosts."""
    end = now.replace(second=0, microsecond=0) - LAG + timedelta(minutes=1)
    begin = end - timedelta(minutes=minutes)
    some = max(1, min(MOST_QUERIES, MOST_POINTS // minutes))
    ordered = sorted(hosts)
    found: dict[str, dict[datetime, float]] = {host: {} for host in ordered}
    for first in range(0, len(ordered), some):
        _gather(ordered[first : first + some], begin, end, found)
    instants = [begin + timedelta(minutes=n) for n in range(minutes)]
    return {host: Window(tuple(known.get(at) for at in instants)) for host, known in found.items()}


def _gather(
    hosts: list[str], begin: datetime, end: datetime, found: dict[str, dict[datetime, float]]
) -> None:
    queries = [_query(n, host) for n, host in enumerate(hosts)]
    request: dict[str, Any] = {"MetricDataQueries": queries, "StartTime": begin, "EndTime": end}
    for result in listed("cloudwatch", "get_metric_data", "MetricDataResults", **request):
        known = found[hosts[int(result["Id"][1:])]]
        # A list that the service left out is one without values.
        stamps, values = result.get("Timestamps") or [], result.get("Values") or []
        known.update(
            (at.replace(second=0, microsecond=0), value) for at, value in zip(stamps, values, strict=True)
        )


def _query(n: int, host: str) -> dict[str, Any]:
    """The maximum over all GPUs of the host."""
    dimensions = [{"Name": "InstanceId", "Value": host}]
    metric = {"Namespace": NAMESPACE, "MetricName": METRIC, "Dimensions": dimensions}
    return {"Id": f"m{n}", "MetricStat": {"Metric": metric, "Period": PERIOD, "Stat": "Maximum"}}
