"""The clock, log and metrics of handlers, and timeline entries of the workflow."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from trainyard.core.model.yard.metrics import NAMESPACE, UNITS, Metric
from trainyard.protocol.timeline import Entry, Source

logger = Logger()
"""The log. As in metrics, its `service` is the yard (POWERTOOLS_SERVICE_NAME)."""
OF_THE_LOG = ("function_name", "run", "attempt")
"""The keys of log lines that a line with a metric repeats."""


def clock() -> datetime:
    """Return the current time. Only handlers and the begin and end of a run read the clock; other functions take the
    time as an argument."""
    return datetime.now(UTC)


def set_log_context(run: str, attempt: int | None = None) -> None:
    """Add the run to every later log line of this invocation."""
    logger.append_keys(run=run, attempt=attempt)


def measure(metric: Metric, value: float = 1, *, kind: str | None = None, **facts: str) -> None:
    """Write a metric into the log in CloudWatch's embedded metric format. The line is flushed at once, so that it
    counts even if the invocation fails later. `facts` appear only in the log line."""
    measure_all({metric: value}, {} if kind is None else {"kind": kind}, **facts)


def measure_all(values: Mapping[Metric, float], dimensions: Mapping[str, str], **facts: str) -> None:
    """Write several metrics with the same dimensions in one line."""
    line = EphemeralMetrics(namespace=NAMESPACE)
    for metric, value in values.items():
        line.add_metric(name=metric.value, unit=UNITS.get(metric, "Count"), value=value)
    for name, of in dimensions.items():
        line.add_dimension(name=name, value=of)
    keys = logger.get_current_keys()
    for name, fact in ({name: keys.get(name) for name in OF_THE_LOG} | facts).items():
        if fact is not None:
            line.add_metadata(key=name, value=fact)
    line.flush_metrics()


def note(event: str, reason: str, *, at: datetime, attempt: int | None = None, **detail: Any) -> Entry:
    """Return a timeline entry of the workflow, and log it."""
    known = {"detail": detail} if attempt is None else {"detail": detail, "attempt": attempt}
    logger.info("%s: %s", event, reason, extra=known)
    return Entry(at=at, source=Source.WORKFLOW, event=event, attempt=attempt, reason=reason, detail=detail)
