"""CloudWatch's GetMetricData and GetMetricStatistics, and metrics that the local cloud itself records.

ministack scans every metric of the account for each query, lacks pages, ScanBy and limits, ignores missing dimensions,
and answers unsupported queries with an empty result.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ministack.services import cloudwatch
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.utils import get_service_model

from localcloud.patches import MINISTACK

Request = dict[str, Any]
"""Body of a request to CloudWatch in any protocol."""
Answer = dict[str, Any]
"""An answer of CloudWatch or a structure in it, with the API's names."""
Point = dict[str, Any]

MOST_QUERIES, MOST_DATAPOINTS = 500, 100_800
MOST_STATISTICS = 1440
SHORT_PERIODS = (1, 5, 10, 20, 30)
STATISTICS = ("SampleCount", "Average", "Sum", "Minimum", "Maximum")
ID = re.compile(r"[a-z][a-zA-Z0-9_]{0,254}")
PERCENTILE = re.compile(r"p(100|\d{1,2}(\.\d{1,10})?)")
KEPT_SECONDS = 14 * 24 * 3600
SWEEP_SECONDS = 60.0

_lock = threading.Lock()
_swept: list[float] = [0.0]


class RefusedError(Exception):
    """An error of CloudWatch: message and code."""

    def __init__(self, message: str, code: str = "ValidationError") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Series:
    """The datapoints of one query in the order of the answer."""

    id: str
    label: str
    times: Sequence[float]
    values: Sequence[float]


def install() -> None:
    """Replace ministack's operations."""
    data = partial(_answer, "GetMetricData", metric_data, "MetricDataResults")
    statistics = partial(_answer, "GetMetricStatistics", metric_statistics, "Datapoints")
    MINISTACK.replace(
        "services.cloudwatch:_get_metric_data", partial(data, cloudwatch._cbor_metric_data_result)
    )
    MINISTACK.replace(
        "services.cloudwatch:_get_metric_statistics", partial(statistics, cloudwatch._cbor_datapoint)
    )
    MINISTACK.replace("services.cloudwatch:_evict_old_metrics", sweep)
    put = MINISTACK.stock("services.cloudwatch:_put_metric_data")
    MINISTACK.replace("services.cloudwatch:_put_metric_data", partial(_put, put))


def record(
    namespace: str,
    name: str,
    value: float,
    unit: str,
    dimensions: Mapping[str, str],
    *,
    at: float | None = None,
) -> None:
    """Record a datapoint at `at` (Unix time, default: now) in the current account and region."""
    point = {"Timestamp": at or time.time(), "Value": value, "Unit": unit, "Dimensions": dict(dimensions)}
    with _lock:
        cloudwatch._metric_bucket((namespace, name, cloudwatch._dims_key(point["Dimensions"]))).append(point)


def count(namespace: str, name: str, value: float, unit: str, dimensions: Mapping[str, str]) -> None:
    """Add to the current minute's datapoint of a metric, as services do for their own metrics.

    A million calls in a minute are one datapoint.
    """
    now, key = time.time(), (namespace, name, cloudwatch._dims_key(dict(dimensions)))
    with _lock:
        points = cloudwatch._metric_bucket(key)
        last = points[-1] if points else None
        if last and last["Value"] == value and last["Timestamp"] // 60 == now // 60:
            last["Count"] = last.get("Count", 1.0) + 1
        else:
            points.append({"Timestamp": now, "Value": value, "Unit": unit, "Dimensions": dict(dimensions)})


def sweep() -> None:
    """Remove datapoints older than two weeks, at intervals."""
    present = time.time()
    if present - _swept[0] < SWEEP_SECONDS:
        return
    _swept[0] = present
    with _lock:
        for (account, region, key), points in cloudwatch._metrics.all_items():
            points[:] = [point for point in points if point["Timestamp"] >= present - KEPT_SECONDS]
            if not points:
                cloudwatch._metrics.pop_scoped(account, region, key)


def _put(stock_put: Any, params: Any, body: Request, is_cbor: bool, is_json: bool = False) -> Any:
    """Answer PutMetricData. One contradictory metric fails the whole request."""
    request = body if is_cbor or is_json else _from_query("PutMetricData", params)
    for number, each in enumerate(request.get("MetricData") or [], 1):
        where = f"The parameters MetricData.member.{number}"
        for other in ("Values", "StatisticValues"):
            if each.get("Value") is not None and each.get(other):
                code = "InvalidParameterCombination"
                text = (
                    f"{where}.Value and MetricData.member.{number}.{other} are mutually exclusive and you have "
                    "specified both."
                )
                return cloudwatch._error(code, text, 400, use_json=is_json, use_cbor=is_cbor)
        if each.get("Counts") and len(each["Counts"]) != len(each.get("Values") or []):
            text = f"{where}.Values and MetricData.member.{number}.Counts must be of the same size."
            return cloudwatch._error("InvalidParameterValue", text, 400, use_json=is_json, use_cbor=is_cbor)
    return stock_put(params, body, is_cbor, is_json)


# ------------------------------------------------------------------------------------------------- GetMetricData


def metric_data(request: Mapping[str, Any]) -> Answer:
    """Answer GetMetricData. Times are in ISO-8601."""
    start, end = _span(request)
    queries = request.get("MetricDataQueries") or []
    _check_queries(queries)
    newest_first = (request.get("ScanBy") or "TimestampDescending") == "TimestampDescending"
    most = int(request.get("MaxDatapoints") or MOST_DATAPOINTS)
    if not 1 <= most <= MOST_DATAPOINTS:
        raise RefusedError(f"The value {most} for parameter MaxDatapoints is not in [1, 100800].")
    series = [_series(query, start, end, newest_first) for query in queries if query.get("ReturnData", True)]
    results, token = page_of(series, _position(request.get("NextToken")), most)
    return {"MetricDataResults": results, "Messages": [], **({"NextToken": token} if token else {})}


def page_of(all_series: Sequence[Series], start: int, most: int) -> tuple[list[Answer], str | None]:
    """Return `most` datapoints from position `start` on, and the next page's token.

    A query with more datapoints is PartialData; one without datapoints is Complete and empty.
    """
    results, position = [], 0
    end, total = start + most, sum(len(series.times) for series in all_series)
    for series in all_series:
        first, last = max(start - position, 0), min(end - position, len(series.times))
        begins_here = start <= position and (position < end or end >= total)
        if last > first or (not series.times and begins_here):
            results.append(_list_datapoints(series, first, last))
        position += len(series.times)
    return results, str(end) if end < total else None


def _list_datapoints(series: Series, first: int, last: int) -> Answer:
    return {
        "Id": series.id,
        "Label": series.label,
        "Timestamps": [_iso(at) for at in series.times[first:last]],
        "Values": list(series.values[first:last]),
        "StatusCode": "Complete" if last == len(series.times) else "PartialData",
    }


def _check_queries(queries: Sequence[Mapping[str, Any]]) -> None:
    if not queries:
        raise RefusedError("The parameter MetricDataQueries is required.")
    if len(queries) > MOST_QUERIES:
        raise RefusedError(
            f"The collection MetricDataQueries must not have a size greater than {MOST_QUERIES}."
        )
    seen = set()
    for number, query in enumerate(queries, 1):
        where, name = f"MetricDataQueries.member.{number}", str(query.get("Id", ""))
        if not ID.fullmatch(name):
            raise RefusedError(
                f"The value {name} for parameter {where}.Id is not matching the expected pattern "
                "^[a-z][a-zA-Z0-9_]*$."
            )
        if name in seen:
            raise RefusedError(f"The values for parameter Id in MetricDataQueries must be unique: {name}.")
        seen.add(name)
        if query.get("Expression") or not query.get("MetricStat"):
            raise RefusedError(f"{where}: the local cloud does not support expressions. Use a MetricStat.")
        stat = query["MetricStat"]
        _check_period(int(stat.get("Period") or 0), f"{where}.MetricStat.Period")
        if stat.get("Stat") not in STATISTICS and not PERCENTILE.fullmatch(str(stat.get("Stat"))):
            raise RefusedError(
                f"The value {stat.get('Stat')} for parameter {where}.MetricStat.Stat is not a statistic."
            )


def _series(query: Mapping[str, Any], start: float, end: float, newest_first: bool) -> Series:
    stat = query["MetricStat"]
    metric, period = stat["Metric"], int(stat["Period"])
    points = points_of(metric, stat.get("Unit"))
    found = []
    for at, bucket in buckets(points, start, end, period):
        value = value_of(bucket, stat["Stat"])
        if value is not None:
            found.append((at, value))
    if newest_first:
        found.reverse()
    label = query.get("Label") or metric["MetricName"]
    return Series(str(query["Id"]), str(label), [at for at, _ in found], [value for _, value in found])


# -------------------------------------------------------------------------------------------- GetMetricStatistics


def metric_statistics(request: Mapping[str, Any]) -> Answer:
    """Answer GetMetricStatistics. Times are in ISO-8601, oldest first."""
    start, end = _span(request, "InvalidParameterValue")
    period = int(request.get("Period") or 0)
    _check_period(period, "Period")
    if math.ceil((end - start) / period) > MOST_STATISTICS:
        raise RefusedError(
            f"You have requested up to {math.ceil((end - start) / period)} datapoints, which exceeds the limit of "
            f"{MOST_STATISTICS}. You may reduce the datapoints requested by increasing Period, or decreasing the time "
            "range.",
            "InvalidParameterCombination",
        )
    wanted, extended = request.get("Statistics") or [], request.get("ExtendedStatistics") or []
    if not wanted and not extended:
        raise RefusedError(
            "Must specify either Statistics or ExtendedStatistics.", "MissingRequiredParameter"
        )
    found = [
        _datapoint(at, bucket, wanted, extended)
        for at, bucket in buckets(points_of(request, request.get("Unit")), start, end, period)
    ]
    return {"Label": request["MetricName"], "Datapoints": found}


def _datapoint(at: float, bucket: list[Point], wanted: Sequence[str], extended: Sequence[str]) -> Answer:
    point: Answer = {"Timestamp": _iso(at), "Unit": bucket[0]["Unit"]}
    point |= {name: value_of(bucket, name) for name in wanted}
    further = {name: value for name in extended if (value := value_of(bucket, name)) is not None}
    return point | ({"ExtendedStatistics": further} if further else {})


# --------------------------------------------------------------------------------------------------- shared parts


def _answer(
    operation: str,
    compute: Callable[[Mapping[str, Any]], Answer],
    key: str,
    as_cbor: Callable[[Any], Any],
    params: Any,
    body: Request,
    is_cbor: bool,
    is_json: bool = False,
) -> Any:
    """Return the answer in the client's protocol. `key` names the list whose items need conversion for CBOR."""
    try:
        answer = compute(body if is_cbor or is_json else _from_query(operation, params))
    except RefusedError as refused:
        return cloudwatch._error(refused.code, str(refused), 400, use_json=is_json, use_cbor=is_cbor)
    if is_cbor:
        return cloudwatch._cbor_ok({**answer, key: [as_cbor(each) for each in answer[key]]})
    if is_json:
        return cloudwatch._json_ok(answer)
    result = f"<{operation}Result>{_xml(answer)}</{operation}Result>"
    return cloudwatch._xml(200, f"{operation}Response", result)


def buckets(
    points: Sequence[Point], start: float, end: float, period: int
) -> Iterator[tuple[float, list[Point]]]:
    """Yield the points of [start, end) by period, oldest first. Empty periods are left out.

    Periods begin at the request's start, rounded down to the minute or to a shorter period.
    """
    begin = math.floor(start / min(period, 60)) * min(period, 60)
    found: dict[int, list[Point]] = {}
    for point in points:
        if begin <= point["Timestamp"] < end:
            found.setdefault(int((point["Timestamp"] - begin) // period), []).append(point)
    for number in sorted(found):
        yield begin + number * period, found[number]


def points_of(metric: Mapping[str, Any], unit: str | None) -> list[Point]:
    """Return the points with exactly this namespace, name and dimensions."""
    dimensions = cloudwatch._dims_from_list(metric.get("Dimensions") or [])
    key = (metric["Namespace"], metric["MetricName"], cloudwatch._dims_key(dimensions))
    points = list(cloudwatch._metrics.get(key) or ())
    return [point for point in points if unit is None or point["Unit"] == unit]


def value_of(bucket: list[Point], statistic: str) -> float | None:
    """Return the statistic of the points of one period."""
    found: float | None = cloudwatch._stat_value(cloudwatch._calc_stats(bucket), statistic, bucket)
    return found


def _span(request: Mapping[str, Any], code: str = "ValidationError") -> tuple[float, float]:
    start, end = (cloudwatch._parse_ts(request.get(name)) for name in ("StartTime", "EndTime"))
    if start is None or end is None:
        raise RefusedError("The parameters StartTime and EndTime are required.")
    if start >= end:
        raise RefusedError("The parameter StartTime must be less than the parameter EndTime.", code)
    return start, end


def _check_period(period: int, where: str) -> None:
    if period < 1 or (period not in SHORT_PERIODS and period % 60):
        raise RefusedError(
            f"The parameter {where} must be 1, 5, 10, 20, 30 or a multiple of 60, not {period}."
        )


def _position(token: Any) -> int:
    if token is None:
        return 0
    if not str(token).isdigit():
        raise RefusedError(f"The token {token} is invalid.", "InvalidNextToken")
    return int(token)


def _iso(at: float) -> str:
    return str(cloudwatch._ts_iso(at))


def _from_query(operation: str, params: Mapping[str, Any]) -> Answer:
    """Answer a client that uses the query protocol."""
    from werkzeug.datastructures import MultiDict

    flat = {key: value[0] if isinstance(value, list) else value for key, value in params.items()}
    request = {
        "method": "POST", "values": MultiDict(flat), "headers": {}, "body": b"", "url_path": "/", "url_params": {},
    }  # fmt: skip
    model = get_service_model("cloudwatch").operation_model(operation)
    return dict(PROTOCOL_PARSERS["query"](model, map_type=dict).parse(request))


def _xml(value: Any) -> str:
    from xml.sax.saxutils import escape

    if isinstance(value, Mapping):
        return "".join(f"<{name}>{_xml(inner)}</{name}>" for name, inner in value.items())
    if isinstance(value, list):
        return "".join(f"<member>{_xml(inner)}</member>" for inner in value)
    return escape(str(value))
