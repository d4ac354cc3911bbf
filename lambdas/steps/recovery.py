"""What every Recover does: another attempt, or stop. Its role may do nothing but write its log."""

from lambdas.core.edges.recover import RecoverInput
from lambdas.core.run.recovery import EndRun, Retry
from lambdas.steps.observability import logger


def logged(given: RecoverInput, decision: Retry | EndRun) -> Retry | EndRun:
    logger.info("%s: %s", decision.kind, decision.reason, extra={"run": given.run, "attempt": given.attempt})
    return decision
