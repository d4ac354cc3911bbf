"""The query of CloudWatch for the metrics of predictions, and the figures in its answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any

from trainyard.core.model.yard.metrics import NAMESPACE, Metric
from trainyard.values.lazy import dataclass

STATISTICS = {
    Metric.PREDICTIONS: "Sum",
    Metric.ERRORS: "Sum",
    Metric.DISAGREED: "Sum",
    Metric.MILLISECONDS: "p50",
}
MOST_VERSIONS = 500 // len(STATISTICS)
"""The most versions of one call, which has up to 500 queries."""
MOST_PERIODS = 120
"""The most periods of a query. Longer times get longer periods, so that a call stays below CloudWatch's limit."""

Key = tuple[str, int, datetime]
"""A model, a version, and the start of the time."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The metrics of a version since a time; all 0 or None if CloudWatch has none."""

    predictions: float = 0.0
    errors: float = 0.0
    milliseconds: float | None = None
    """The median."""
    disagreed: float = 0.0

    @property
    def share(self) -> float:
        """Return the share of errors."""
        return self.errors / self.predictions if self.predictions else 0.0


def request_of(yard: str, asked: Sequence[Key], now: datetime) -> dict[str, Any]:
    """Return a request to GetMetricData about up to MOST_VERSIONS versions."""
    begin = min(_minute(start) for _, _, start in asked)
    period = 60 * max(1, -(-int((now - begin).total_seconds()) // (60 * MOST_PERIODS)))
    queries = [
        _query(yard, _id(number, metric), key, metric, period)
        for number, key in enumerate(asked)
        for metric in STATISTICS
    ]
    return {"MetricDataQueries": queries, "StartTime": begin, "EndTime": now}


def figures_of(asked: Sequence[Key], results: Iterable[Mapping[str, Any]]) -> dict[Key, Figures]:
    """Return the figures of each version in the results."""
    values: dict[str, list[float]] = {}
    for result in results:
        start = _minute(asked[int(result["Id"][1:].partition("_")[0])][2])
        # The service omits empty lists.
        stamped = zip(result.get("Timestamps") or [], result.get("Values") or [], strict=True)
        values.setdefault(result["Id"], []).extend(value for at, value in stamped if at >= start)
    return {key: _figures(number, values) for number, key in enumerate(asked)}


def _figures(number: int, values: Mapping[str, list[float]]) -> Figures:
    def of(metric: Metric) -> list[float]:
        return values.get(_id(number, metric)) or []

    times = of(Metric.MILLISECONDS)
    return Figures(
        predictions=sum(of(Metric.PREDICTIONS)),
        errors=sum(of(Metric.ERRORS)),
        milliseconds=median(times) if times else None,
        disagreed=sum(of(Metric.DISAGREED)),
    )


def _id(number: int, metric: Metric) -> str:
    return f"m{number}_{metric.value.lower()}"


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _query(yard: str, name: str, key: Key, metric: Metric, period: int) -> dict[str, Any]:
    model, version, _ = key
    dimensions = {"service": yard, "model": model, "version": str(version)}
    which = {
        "Namespace": NAMESPACE,
        "MetricName": metric.value,
        "Dimensions": [{"Name": each, "Value": value} for each, value in dimensions.items()],
    }
    return {"Id": name, "MetricStat": {"Metric": which, "Period": period, "Stat": STATISTICS[metric]}}
