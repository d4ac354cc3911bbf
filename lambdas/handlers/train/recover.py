"""Recover: again, and with which hosts, or stop. Its role may do nothing but write its log."""

from typing import Any

from lambdas.core.model import wire
from lambdas.core.run import recovery
from lambdas.core.run.recovery import Retry, Stop, Trouble
from lambdas.steps.observability import logger


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    failure, plan, attempt = event["failure"], event["plan"], int(event["attempt"])
    trouble = Trouble.caught(failure.get("error", "Unknown"), failure.get("cause", ""))
    decision = recovery.decide(
        trouble,
        attempt=attempt,
        restarts=int(plan["restarts"]),
        now=wire.instant(event["now"]),
        deadline=wire.instant(plan["deadline"]),
    )
    logger.info("%s: %s", decision.kind, decision.reason, extra={"run": event["run"], "attempt": attempt})
    match decision:
        case Retry(after=seconds, keep=keep, lost=lost, reason=reason):
            return {
                "kind": "retry",
                "seconds": seconds,
                "keep": keep.value,
                "lost": list(lost),
                "reason": reason,
                "attempt": attempt + 1,
            }
        case Stop(error=error, reason=reason):
            return {
                "kind": "stop",
                "error": error,
                "reason": reason,
                "keep": "none",
                "lost": [],
                "attempt": attempt,
            }
