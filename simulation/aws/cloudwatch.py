"""CloudWatch metrics: stored points, and hosts whose metrics are computed from the time.

A host's agent collects metrics for a minute and sends them within another, so a minute can be read two minutes
later.
"""

from __future__ import annotations

import base64
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from simulation.aws.endpoint.api import Answer, Caller, Check, Request, ServiceError, Structure
from simulation.aws.endpoint.parameters import not_simulated, only
from simulation.world.world import World

MINUTE = timedelta(minutes=1)
LAG = timedelta(minutes=2)
"""The age at which a minute of a host can be read."""
MOST_QUERIES = 500
MOST_POINTS = 100_800
MOST_DATA = 1000
OLDEST, NEWEST = timedelta(days=14), timedelta(hours=2)
"""The range of timestamps that PutMetricData accepts, relative to now."""
TO_SEE_SECONDS = 60.0
"""Stored points become readable within this time."""

SeriesKey = tuple[str, str, tuple[tuple[str, str], ...]]
"""Namespace, metric, sorted dimensions."""
Follow = Callable[[datetime], float | None]
"""Computes the value of the minute that begins at that time; None without a value."""
Sample = tuple[datetime, datetime, float]
"""Time of the point, time when it becomes readable, value."""

STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Maximum": max,
    "Minimum": min,
    "Sum": sum,
    "Average": lambda values: sum(values) / len(values),
    "SampleCount": lambda values: float(len(values)),
    "p50": median,
}


@dataclass
class Series:
    samples: list[Sample] = field(default_factory=list)
    follow: Follow | None = None

    def values(self, begin: datetime, end: datetime, now: datetime) -> Iterator[tuple[datetime, float]]:
        """Yield the points in this range that can be read now."""
        for at, seen, value in self.samples[bisect_left(self.samples, (begin,)) :]:
            if at >= end:
                break
            if seen <= now:
                yield at, value
        if self.follow:
            at = minute_of(begin)
            while at < end and at + LAG <= now:
                value_then = self.follow(at)
                if at >= begin and value_then is not None:
                    yield at, value_then
                at += MINUTE


class CloudWatch:
    def __init__(self, world: World) -> None:
        self.world = world
        self.page_size = MOST_POINTS
        """The maximum number of points on a page."""
        self._series: dict[SeriesKey, Series] = {}
        self._chance = world.chance("cloudwatch")

    # what the world and hosts use

    def follow(self, namespace: str, metric: str, instance: str, value: Follow) -> None:
        """Compute the metric of the instance with this function when it is read. An idle host then costs nothing."""
        self._find_series(namespace, metric, {"InstanceId": instance}).follow = value

    def record(self, namespace: str, values: Mapping[str, float], dimensions: Mapping[str, str]) -> None:
        """Store metrics that a function has written into its log."""
        now = self.world.now
        seen = now + timedelta(seconds=self._chance.uniform(0, TO_SEE_SECONDS))
        for metric, value in values.items():
            insort(self._find_series(namespace, metric, dimensions).samples, (now, seen, value))

    # permissions

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        if operation == "put_metric_data":
            namespace = {"cloudwatch:namespace": str(request["Namespace"])}
            return [Check("cloudwatch:PutMetricData", "*", namespace)]
        if operation == "get_metric_data":
            return [Check("cloudwatch:GetMetricData", "*")]
        raise not_simulated(f"cloudwatch.{operation}")

    # operations

    def put_metric_data(self, caller: Caller, request: Request) -> Answer:
        only(request, ("Namespace", "MetricData"), "PutMetricData")
        if len(request["MetricData"]) > MOST_DATA:
            raise _invalid("The collection MetricData must not have a size greater than 1000.")
        now = self.world.now
        found = [self._read_datum(request["Namespace"], datum, now) for datum in request["MetricData"]]
        seen = now + timedelta(seconds=self._chance.uniform(0, TO_SEE_SECONDS))
        for series, at, values in found:
            for value in values:
                insort(series.samples, (at, seen, value))
        return {}

    def _read_datum(
        self, namespace: str, datum: Mapping[str, Any], now: datetime
    ) -> tuple[Series, datetime, list[float]]:
        known = (
            "MetricName",
            "Dimensions",
            "Timestamp",
            "Unit",
            "Value",
            "Values",
            "Counts",
            "StorageResolution",
        )
        only(datum, known, "a MetricDatum")
        at = _aware(datum.get("Timestamp", now))
        if not now - OLDEST <= at <= now + NEWEST:
            raise _invalid(
                "The parameter MetricData.member.1.Timestamp must specify a time within the past two weeks."
            )
        values = [datum["Value"]] if "Value" in datum else list(datum["Values"])
        counts = datum.get("Counts", [1] * len(values))
        if len(counts) != len(values):
            raise _invalid("The parameters Values and Counts must be of the same size.")
        return (
            self._find_series(namespace, datum["MetricName"], _dimensions(datum)),
            at,
            [float(value) for value, count in zip(values, counts, strict=True) for _ in range(int(count))],
        )

    def get_metric_data(self, caller: Caller, request: Request) -> Answer:
        known = ("MetricDataQueries", "StartTime", "EndTime", "NextToken", "ScanBy", "MaxDatapoints")
        only(request, known, "GetMetricData")
        queries = request["MetricDataQueries"]
        if not 1 <= len(queries) <= MOST_QUERIES:
            raise _invalid("The collection MetricDataQueries must not have a size greater than 500.")
        if len({query["Id"] for query in queries}) != len(queries):
            raise _invalid("The value of the Id must be unique.")
        begin, end = _aware(request["StartTime"]), _aware(request["EndTime"])
        if begin >= end:
            raise _invalid("The parameter StartTime must be less than the parameter EndTime.")
        most = min(self.page_size, request.get("MaxDatapoints", MOST_POINTS), MOST_POINTS)
        query, point = _position(request.get("NextToken"))
        results: list[Structure] = []
        left = most
        while query < len(queries) and left > 0:
            points = self._points(queries[query], begin, end, newest_first=_newest_first(request))
            shown = points[point : point + left]
            left -= max(len(shown), 1)
            is_whole = point + len(shown) == len(points)
            results.append(_result(queries[query], shown, is_whole=is_whole))
            query, point = (query + 1, 0) if is_whole else (query, point + len(shown))
        answer: Answer = {"MetricDataResults": results, "Messages": []}
        return answer | ({"NextToken": _token(query, point)} if query < len(queries) else {})

    def _points(
        self, query: Mapping[str, Any], begin: datetime, end: datetime, *, newest_first: bool
    ) -> list[tuple[datetime, float]]:
        only(query, ("Id", "Label", "MetricStat", "ReturnData"), "a MetricDataQuery")
        stat = query["MetricStat"]
        only(stat, ("Metric", "Period", "Stat"), "a MetricStat")
        if stat["Stat"] not in STATISTICS:
            raise not_simulated(f"the statistic {stat['Stat']}")
        period = int(stat["Period"])
        if period % 60:
            raise not_simulated(f"a period of {period} s")
        metric = stat["Metric"]
        series = self._series.get(_key(metric["Namespace"], metric["MetricName"], _dimensions(metric)))
        found: dict[datetime, list[float]] = {}
        for at, value in series.values(begin, end, self.world.now) if series else ():
            found.setdefault(_floor(at, period), []).append(value)
        statistic = STATISTICS[stat["Stat"]]
        return sorted(((at, statistic(values)) for at, values in found.items()), reverse=newest_first)

    def _find_series(self, namespace: str, metric: str, dimensions: Mapping[str, str]) -> Series:
        return self._series.setdefault(_key(namespace, metric, dimensions), Series())


def minute_of(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _key(namespace: str, metric: str, dimensions: Mapping[str, str]) -> SeriesKey:
    return namespace, metric, tuple(sorted(dimensions.items()))


def _dimensions(of: Mapping[str, Any]) -> dict[str, str]:
    return {each["Name"]: each["Value"] for each in of.get("Dimensions", ())}


def _floor(at: datetime, period: int) -> datetime:
    return datetime.fromtimestamp(int(at.timestamp()) // period * period, UTC)


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _newest_first(request: Mapping[str, Any]) -> bool:
    return bool(request.get("ScanBy", "TimestampDescending") == "TimestampDescending")


def _result(
    query: Mapping[str, Any], points: Sequence[tuple[datetime, float]], *, is_whole: bool
) -> Structure:
    return {
        "Id": query["Id"],
        "Label": query.get("Label") or query["MetricStat"]["Metric"]["MetricName"],
        "Timestamps": [at for at, _ in points],
        "Values": [value for _, value in points],
        "StatusCode": "Complete" if is_whole else "PartialData",
    }


def _token(query: int, point: int) -> str:
    return base64.b64encode(f"{query}/{point}".encode()).decode()


def _position(token: str | None) -> tuple[int, int]:
    """Return the query that continues, and the index of its next point."""
    if not token:
        return 0, 0
    query, _, point = base64.b64decode(token).decode().partition("/")
    return int(query), int(point)


def _invalid(message: str) -> ServiceError:
    return ServiceError("ValidationError", message)
