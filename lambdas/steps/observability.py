"""What every handler uses: the clock, the log, and timeline entries of the workflow itself."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools.logging import Logger

from lambdas.core.model.timeline import Entry, Source

logger = Logger(service="trainyard")


def clock() -> datetime:
    """Now. Only handlers ask; everything below them is told."""
    return datetime.now(UTC)


def note(event: str, reason: str, *, at: datetime, attempt: int | None = None, **detail: Any) -> Entry:
    """A timeline entry of the workflow, which is also logged."""
    logger.info("%s: %s", event, reason, extra={"attempt": attempt, "detail": detail})
    return Entry(at=at, source=Source.WORKFLOW, event=event, attempt=attempt, reason=reason, detail=detail)


def attempt_of(event: Mapping[str, Any]) -> tuple[str, int]:
    """The run and the attempt a state was entered for."""
    return str(event["run"]), int(event["attempt"])
