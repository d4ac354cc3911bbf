"""What every Recover does: another attempt, or stop. Its role may do nothing but write its log."""

from lambdas.core.edges.common import RecoverInput, Retry, Stop
from lambdas.core.run import recovery
from lambdas.core.run.recovery import Trouble
from lambdas.steps.observability import logger


def trouble_of(given: RecoverInput) -> Trouble:
    return Trouble.caught(given.failure.error or "Unknown", given.failure.cause)


def answer(given: RecoverInput, decision: recovery.Retry | recovery.Stop) -> Retry | Stop:
    logger.info("%s: %s", decision.kind, decision.reason, extra={"run": given.run, "attempt": given.attempt})
    match decision:
        case recovery.Retry(after=seconds, keep=keep, lost=lost, reason=reason):
            return Retry(seconds=seconds, keep=keep, lost=lost, reason=reason, attempt=given.attempt + 1)
        case recovery.Stop(error=error, reason=reason):
            return Stop(error=error, reason=reason, attempt=given.attempt)
