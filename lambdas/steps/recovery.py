"""The common part of every Recover: start another attempt, or stop. The role may only write its log."""

from datetime import datetime
from typing import Protocol

from lambdas.core.run.recovery import EndRun, Retry, Trouble
from lambdas.steps.inputs import AttemptInput, Failure
from lambdas.steps.observability import logger
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The part of the plan that Recover receives. Recover reads nothing itself."""

    restarts: int
    deadline: datetime
    elastic: bool = False
    """True if attempts may have fewer workers."""


@dataclass(frozen=True, kw_only=True)
class RecoverInput(AttemptInput):
    failure: Failure
    plan: Limits
    now: datetime
    resized: int = 0
    """The number of attempts that ended to give the next one more hosts, or for a run of a higher priority."""
    deadline: datetime | None = None
    """When the hours of the run are used up, as Launch computed it last; None for the deadline of the plan. The hours
    do not include waits after a preemption."""


class Decide(Protocol):
    def __call__(
        self, trouble: Trouble, *, attempt: int, now: datetime, deadline: datetime
    ) -> Retry | EndRun: ...


def decide_and_log(given: RecoverInput, decide: Decide) -> Retry | EndRun:
    """Decide about the failure of the attempt, and log the decision."""
    trouble, deadline = given.failure.trouble, given.deadline or given.plan.deadline
    decision = decide(trouble, attempt=given.attempt, now=given.now, deadline=deadline)
    logger.info("%s: %s", decision.kind, decision.reason)
    return decision
