"""Recover: another attempt, and with which hosts, or stop."""

from lambdas.core.edges.recover import RecoverInput
from lambdas.core.run.recovery import EndRun, Retry, decide
from lambdas.steps import recovery
from lambdas.steps.entry_point import entry_point


@entry_point
def handler(given: RecoverInput) -> Retry | EndRun:
    decision = decide(
        given.failure.trouble,
        attempt=given.attempt,
        restarts=given.plan.restarts,
        now=given.now,
        deadline=given.plan.deadline,
    )
    return recovery.logged(given, decision)
