"""Recover of a bake: launch another builder, or stop."""

from lambdas.core.images import bake
from lambdas.core.run.recovery import EndRun, Retry
from lambdas.environment import Settings
from lambdas.needs import Needs
from lambdas.steps import recovery
from lambdas.steps.entry_point import entry_point
from lambdas.steps.recovery import RecoverInput

NEEDS = Needs(Settings)


@entry_point
def handler(given: RecoverInput) -> Retry | EndRun:
    return recovery.decide_and_log(given, bake.decide_after)
