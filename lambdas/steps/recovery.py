"""What Recover of a workflow with one host does: another host, or stop. Its role may do nothing but write its log."""

from collections.abc import Callable
from typing import Any

from lambdas.core.model import wire
from lambdas.core.run.recovery import Retry, Stop, Trouble
from lambdas.steps.observability import logger


def or_stop(event: dict[str, Any], after: Callable[..., Retry | Stop]) -> dict[str, Any]:
    """The workflow's answer. `after(trouble, *, attempt, now, deadline)` decides."""
    failure, attempt = event["failure"], int(event["attempt"])
    decision = after(
        Trouble.caught(failure.get("error", "Unknown"), failure.get("cause", "")),
        attempt=attempt,
        now=wire.instant(event["now"]),
        deadline=wire.instant(event["plan"]["deadline"]),
    )
    logger.info("%s: %s", decision.kind, decision.reason, extra={"run": event["run"], "attempt": attempt})
    match decision:
        case Retry(after=seconds, reason=reason):
            return {"kind": "retry", "seconds": seconds, "reason": reason, "attempt": attempt + 1}
        case Stop(error=error, reason=reason):
            return {"kind": "stop", "error": error, "reason": reason, "attempt": attempt}
