"""Recover: decide on another attempt and its hosts, or stop."""

from functools import partial

from lambdas.core.run.recovery import EndRun, Retry, decide
from lambdas.environment import Settings
from lambdas.needs import Needs
from lambdas.steps import recovery
from lambdas.steps.entry_point import entry_point
from lambdas.steps.recovery import RecoverInput

NEEDS = Needs(Settings)


@entry_point
def handler(given: RecoverInput) -> Retry | EndRun:
    limits = given.plan
    decision = partial(decide, restarts=limits.restarts, resized=given.resized, elastic=limits.elastic)
    return recovery.decide_and_log(given, decision)
