"""What every Recover does: another attempt, or stop. Its role may do nothing but write its log."""

from lambdas.core.edges.recover import RecoverInput, Retry, Stop
from lambdas.core.run import recovery
from lambdas.steps.observability import logger


def answer(given: RecoverInput, decision: recovery.Retry | recovery.Stop) -> Retry | Stop:
    logger.info("%s: %s", decision.kind, decision.reason, extra={"run": given.run, "attempt": given.attempt})
    match decision:
        case recovery.Retry(after=seconds, keep=keep, lost=lost, reason=reason):
            return Retry(seconds=seconds, keep=keep, lost=lost, reason=reason, attempt=given.attempt + 1)
        case recovery.Stop(error=error, reason=reason):
            return Stop(error=error, reason=reason, attempt=given.attempt)
