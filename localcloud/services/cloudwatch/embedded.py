"""Metrics in log lines in CloudWatch's embedded metric format, from functions and PutLogEvents.

As on AWS, an invalid line gives no metric and is counted in `AWS/Logs`: as `EMFParsingErrors` if it is not JSON,
otherwise as `EMFValidationErrors`.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.patches import MINISTACK
from localcloud.services.cloudwatch import metrics as cloudwatch

log = logging.getLogger(__name__)

MARK = '"CloudWatchMetrics"'
OLDEST, NEWEST = 14 * 24 * 3600.0, 2 * 3600.0
"""Range of accepted times, in seconds before and after now."""
MOST_METRICS, MOST_VALUES, MOST_DIMENSIONS = 100, 100, 30
MOST_NAME, MOST_DIMENSION_NAME, MOST_DIMENSION_VALUE = 1024, 250, 1024
BYTES, BITS = (
    ("Bytes", "Kilobytes", "Megabytes", "Gigabytes", "Terabytes"),
    ("Bits", "Kilobits", "Megabits", "Gigabits", "Terabits"),
)
UNITS = frozenset(
    ["Seconds", "Microseconds", "Milliseconds", "Percent", "Count", "Count/Second", "None"]
    + [f"{unit}{rate}" for unit in (*BYTES, *BITS) for rate in ("", "/Second")]
)
ASCII = re.compile(r"[\x20-\x7e]*\S[\x20-\x7e]*")


@dataclass(frozen=True)
class Datum:
    """One value of one metric; `at` is Unix time."""

    namespace: str
    name: str
    value: float
    unit: str
    dimensions: Mapping[str, str]
    at: float


def install() -> None:
    """Check every line that reaches a log group."""
    stock = MINISTACK.stock("services.cloudwatch_logs:_fanout_to_subscription_filters")

    def ingested(group_name: str, stream_name: str, events: Iterable[Mapping[str, Any]]) -> None:
        for event in events:
            extract(group_name, str(event.get("message", "")))
        stock(group_name, stream_name, events)

    MINISTACK.replace("services.cloudwatch_logs:_fanout_to_subscription_filters", ingested)


def extract(group: str, line: str) -> None:
    """Record the metrics in a line."""
    if MARK not in line:
        return
    try:
        document = json.loads(line)
    except ValueError as error:
        _refuse(group, "EMFParsingErrors", str(error))
        return
    wrong = "; ".join(faults(document, time.time()))
    if wrong:
        _refuse(group, "EMFValidationErrors", wrong)
        return
    for each in data_of(document):
        cloudwatch.record(each.namespace, each.name, each.value, each.unit, each.dimensions, at=each.at)


def _refuse(group: str, metric: str, why: str) -> None:
    log.warning("%s: a line gives no metric: %s", group, why)
    cloudwatch.record("AWS/Logs", metric, 1.0, "Count", {"LogGroupName": group})


def data_of(document: Mapping[str, Any]) -> Iterator[Datum]:
    """Yield each value of a valid object once for each set of dimensions."""
    for directive in document["_aws"]["CloudWatchMetrics"]:
        for named in directive["Dimensions"]:
            for metric in directive["Metrics"]:
                found = document[metric["Name"]]
                for value in found if isinstance(found, list) else [found]:
                    yield Datum(
                        namespace=directive["Namespace"],
                        name=metric["Name"],
                        value=float(value),
                        unit=metric.get("Unit", "None"),
                        dimensions={name: document[name] for name in named},
                        at=document["_aws"]["Timestamp"] / 1000,
                    )


def faults(document: Any, now: float) -> Iterator[str]:
    """Yield the violations of the specification."""
    metadata = document.get("_aws") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        yield "_aws is not an object at the root"
        return
    stamp: Any = metadata.get("Timestamp")
    if not _is_number(stamp) or not float(stamp).is_integer():
        yield "_aws.Timestamp is not a number of milliseconds"
    elif not now - OLDEST <= stamp / 1000 <= now + NEWEST:
        yield "_aws.Timestamp is not within 14 days before and 2 hours after now"
    directives = metadata.get("CloudWatchMetrics")
    if not isinstance(directives, list):
        yield "_aws.CloudWatchMetrics is not a list"
        return
    for directive in directives:
        if isinstance(directive, dict):
            yield from _faults_of_directive(directive, document)
        else:
            yield "a directive is not an object"


def _faults_of_directive(directive: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    if not _is_text(directive.get("Namespace"), MOST_NAME):
        yield "Namespace is not a text of 1 to 1024 characters"
    sets, metrics = directive.get("Dimensions"), directive.get("Metrics")
    if not isinstance(sets, list) or not sets:
        yield "Dimensions is not a list of sets"
    else:
        for each in sets:
            yield from _faults_of_dimensions(each, document)
    if not isinstance(metrics, list) or not 1 <= len(metrics) <= MOST_METRICS:
        yield "Metrics is not a list of 1 to 100"
    else:
        for each in metrics:
            yield from _faults_of_metric(each, document)


def _faults_of_dimensions(named: Any, document: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(named, list) or len(named) > MOST_DIMENSIONS:
        yield "a set of dimensions is not a list of up to 30"
        return
    for name in named:
        if not _is_text(name, MOST_DIMENSION_NAME) or name.startswith(":"):
            yield f"{name!r} is not a valid dimension name"
        elif not _is_text(document.get(name), MOST_DIMENSION_VALUE):
            yield f"the root lacks a text of 1 to 1024 characters for the dimension {name}"


def _faults_of_metric(metric: Any, document: Mapping[str, Any]) -> Iterator[str]:
    name = metric.get("Name") if isinstance(metric, dict) else None
    if not isinstance(name, str) or not _is_text(name, MOST_NAME):
        yield "a metric lacks a Name"
        return
    if metric.get("Unit", "None") not in UNITS:
        yield f"{name}: not a unit of CloudWatch: {metric['Unit']!r}"
    if metric.get("StorageResolution", 60) not in (1, 60):
        yield f"{name}: StorageResolution is neither 1 nor 60"
    found = document.get(name)
    values = found if isinstance(found, list) else [found]
    if not 1 <= len(values) <= MOST_VALUES or not all(map(_is_number, values)):
        yield f"{name}: the root lacks a number or 1 to 100 numbers for it"


def _is_text(value: Any, most: int) -> bool:
    return isinstance(value, str) and len(value) <= most and bool(ASCII.fullmatch(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
