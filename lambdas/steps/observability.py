"""What every handler uses: the clock, the log, and timeline entries of the workflow itself."""

from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools.logging import Logger

from lambdas.core.model.timeline import Entry, Source

logger = Logger(service="trainyard")


def clock() -> datetime:
    """Now. Only handlers and what begins or ends a run ask; everything below is given it."""
    return datetime.now(UTC)


def note(event: str, reason: str, *, at: datetime, attempt: int | None = None, **detail: Any) -> Entry:
    """A timeline entry of the workflow, which is also logged."""
    logger.info("%s: %s", event, reason, extra={"attempt": attempt, "detail": detail})
    return Entry(at=at, source=Source.WORKFLOW, event=event, attempt=attempt, reason=reason, detail=detail)
