"""Recover: another attempt, and with which hosts, or stop."""

from lambdas.core.edges.recover import RecoverInput, Retry, Stop
from lambdas.core.run.recovery import decide
from lambdas.steps import recovery
from lambdas.steps.entry_point import entry_point


@entry_point
def handler(given: RecoverInput) -> Retry | Stop:
    decision = decide(
        given.failure.trouble,
        attempt=given.attempt,
        restarts=given.plan.restarts,
        now=given.now,
        deadline=given.plan.deadline,
    )
    return recovery.answer(given, decision)
