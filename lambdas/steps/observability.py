"""What every handler uses: the clock, the log, the yard's metrics, and timeline entries of the workflow itself."""

from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from trainyard.core.model.yard.metrics import NAMESPACE, UNITS, Metric
from trainyard.protocol.timeline import Entry, Source

logger = Logger()
"""Its `service`, as that of the metrics, is the yard: POWERTOOLS_SERVICE_NAME."""
OF_THE_LOG = ("function_name", "run", "attempt")
"""What a metric's line has in common with the log's others."""


def clock() -> datetime:
    """Now. Only handlers and what begins or ends a run ask; everything below is given it."""
    return datetime.now(UTC)


def is_about(run: str, attempt: int | None = None) -> None:
    """Name the run in every line that the invocation logs from here on."""
    logger.append_keys(run=run, attempt=attempt)


def measure(metric: Metric, value: float = 1, *, kind: str | None = None, **facts: str) -> None:
    """Tell CloudWatch, by a line of the log in its embedded metric format. At once, once the ledger has it: whatever
    then becomes of the invocation, it is counted. `facts` are in the line alone, for who looks into the log."""
    line = EphemeralMetrics(namespace=NAMESPACE)
    line.add_metric(name=metric.value, unit=UNITS.get(metric, "Count"), value=value)
    if kind is not None:
        line.add_dimension(name="kind", value=kind)
    keys = logger.get_current_keys()
    for name, fact in ({name: keys.get(name) for name in OF_THE_LOG} | facts).items():
        if fact is not None:
            line.add_metadata(key=name, value=fact)
    line.flush_metrics()


def note(event: str, reason: str, *, at: datetime, attempt: int | None = None, **detail: Any) -> Entry:
    """A timeline entry of the workflow, which is also logged."""
    known = {"detail": detail} if attempt is None else {"detail": detail, "attempt": attempt}
    logger.info("%s: %s", event, reason, extra=known)
    return Entry(at=at, source=Source.WORKFLOW, event=event, attempt=attempt, reason=reason, detail=detail)
