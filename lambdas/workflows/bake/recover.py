"""Recover of a bake: another builder, or stop."""

from lambdas.core.images import bake
from lambdas.core.run.recovery import EndRun, Retry
from lambdas.steps import recovery
from lambdas.steps.entry_point import entry_point
from lambdas.steps.recovery import RecoverInput


@entry_point
def handler(given: RecoverInput) -> Retry | EndRun:
    return recovery.decided(given, bake.after)
