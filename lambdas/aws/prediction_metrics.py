"""The metrics of predictions from CloudWatch, for many versions in one call."""

from collections.abc import Collection, Mapping
from datetime import datetime
from statistics import median
from typing import Any

from lambdas.aws.calls import list_items
from lambdas.core.models.canary import Figures
from trainyard.core.model.yard.metrics import NAMESPACE, Metric

STATISTICS = {
    Metric.PREDICTIONS: "Sum",
    Metric.ERRORS: "Sum",
    Metric.DISAGREED: "Sum",
    Metric.MILLISECONDS: "p50",
}
MOST_QUERIES = 500
MOST_PERIODS = 120
"""The most periods of a query. Longer times get longer periods, so that a call stays below CloudWatch's limit."""

Key = tuple[str, int, datetime]
"""A model, a version, and the start of the time."""


def read(service: str, asked: Collection[Key], now: datetime) -> dict[Key, Figures]:
    """Return the figures of each version from its start until now. One call reads 125 of them."""
    ordered = sorted(set(asked))
    some = MOST_QUERIES // len(STATISTICS)
    found: dict[Key, Figures] = {}
    for first in range(0, len(ordered), some):
        found |= _read(service, ordered[first : first + some], now)
    return found


def _read(service: str, asked: list[Key], now: datetime) -> dict[Key, Figures]:
    begin = min(start for _, _, start in asked).replace(second=0, microsecond=0)
    period = 60 * max(1, -(-int((now - begin).total_seconds()) // (60 * MOST_PERIODS)))
    queries = [
        _query(service, f"m{number}_{metric.value.lower()}", key, metric, period)
        for number, key in enumerate(asked)
        for metric in STATISTICS
    ]
    request: dict[str, Any] = {"MetricDataQueries": queries, "StartTime": begin, "EndTime": now}
    values: dict[str, list[float]] = {}
    for result in list_items("cloudwatch", "get_metric_data", "MetricDataResults", **request):
        number = int(result["Id"][1:].partition("_")[0])
        start = asked[number][2].replace(second=0, microsecond=0)
        # The service omits empty lists.
        stamped = zip(result.get("Timestamps") or [], result.get("Values") or [], strict=True)
        values.setdefault(result["Id"], []).extend(value for at, value in stamped if at >= start)
    return {key: _figures(number, values) for number, key in enumerate(asked)}


def _figures(number: int, values: Mapping[str, list[float]]) -> Figures:
    def of(metric: Metric) -> list[float]:
        return values.get(f"m{number}_{metric.value.lower()}") or []

    times = of(Metric.MILLISECONDS)
    return Figures(
        predictions=sum(of(Metric.PREDICTIONS)),
        errors=sum(of(Metric.ERRORS)),
        milliseconds=median(times) if times else None,
        disagreed=sum(of(Metric.DISAGREED)),
    )


def _query(service: str, name: str, key: Key, metric: Metric, period: int) -> dict[str, Any]:
    model, version, _ = key
    dimensions = {"service": service, "model": model, "version": str(version)}
    which = {
        "Namespace": NAMESPACE,
        "MetricName": metric.value,
        "Dimensions": [{"Name": each, "Value": value} for each, value in dimensions.items()],
    }
    return {"Id": name, "MetricStat": {"Metric": which, "Period": period, "Stat": STATISTICS[metric]}}
