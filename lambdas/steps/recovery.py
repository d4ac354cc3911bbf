"""What every Recover does: another attempt, or stop. Its role may do nothing but write its log."""

from datetime import datetime
from typing import Protocol

from lambdas.core.edges.common import RecoverInput
from lambdas.core.run.recovery import EndRun, Retry, Trouble
from lambdas.steps.observability import logger


class Decide(Protocol):
    def __call__(
        self, trouble: Trouble, *, attempt: int, now: datetime, deadline: datetime
    ) -> Retry | EndRun: ...


def decided(given: RecoverInput, decide: Decide) -> Retry | EndRun:
    """What is decided of the attempt's trouble; the log gets it too."""
    trouble, deadline = given.failure.trouble, given.plan.deadline
    decision = decide(trouble, attempt=given.attempt, now=given.now, deadline=deadline)
    logger.info("%s: %s", decision.kind, decision.reason)
    return decision
