"""Early stopping: a trial whose objective reaches a rung is compared with the other trials there.

Each trial has one value at a rung, the first one. A trial that is worse saves and stops."""

from dataclasses import replace
from datetime import datetime

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import event_row, run_row
from lambdas.aws.dynamodb.studies import Studies, judged_row, rung_row
from lambdas.core.study import rungs
from lambdas.core.study.rungs import Reached
from lambdas.steps.observability import logger
from lambdas.steps.signals import from_people
from lambdas.steps.signals.context import SignalContext
from trainyard.core.model.job import Job
from trainyard.core.model.study import Rule, Study
from trainyard.protocol.ledger.study import RungRow
from trainyard.protocol.signals import Progress
from trainyard.protocol.timeline import Source
from trainyard.protocol.trial import NAME, STUDY, Pruned
from trainyard.values import serialization
from trainyard.values.serialization import Measure


def compare(context: SignalContext, signal: Progress, now: datetime) -> str | None:
    """Record the value of a trial at a rung and stop the trial if it is worse there; return the reason of a stop."""
    trial = NAME.fullmatch(context.run)
    if trial is None or not signal.objective:
        return None
    row = context.ledger.run(trial["study"])
    study = serialization.from_json(Job, row.job).study if row and row.job and not row.ended else None
    reached = rungs.reached(study.pruner, signal.objective) if study else ()
    for mine in reached:
        assert study, "only a study has rungs"
        if reason := _judge(context, study, trial["study"], int(trial["number"]), mine):
            return _stop(context, Pruned(rung=mine.rung, value=Measure(mine.value), reason=reason), now)
    return None


def _judge(context: SignalContext, section: Study, study: str, number: int, mine: Reached) -> str | None:
    """Record the value of a trial at a rung. Return why the trial stops there, or None if it continues."""
    row = RungRow(step=mine.rung, number=number, value=mine.value, at=mine.at)
    try:
        context.ledger.write(rung_row(study, row))
    except AlreadyWrittenError:
        logger.info("%s has a value at the rung %s already", context.run, mine.rung)
        return None
    studies = Studies(context.ledger.table)
    if section.pruner.rule is Rule.MEDIAN:
        others = [each.value for each in studies.rung(study, mine.rung) if each.number != number]
        return rungs.judge(section.pruner, section.objective, mine, others)
    from lambdas.core.study import pruning  # Optuna takes as long to import as boto3

    rows = [each for each in studies.rungs(study) if (each.step, each.number) != (row.step, row.number)]
    judged = pruning.judge(section, number, mine, rows)
    context.ledger.write(judged_row(study, replace(row, attributes=judged.attributes)))
    return judged.reason


def _stop(context: SignalContext, pruned: Pruned, now: datetime) -> str:
    entry = context.entry("stop asked", at=now, source=Source.WORKFLOW, reason=pruned.reason)
    stopped = run_row(
        context.run, {"stopping": now, "stopped_by": STUDY, "pruned": pruned}, unless="stopping"
    )
    try:
        context.ledger.write(stopped, event_row(context.run, entry))
    except AlreadyWrittenError:
        return "another stop was asked before"
    return f"{pruned.reason}: {from_people.continue_stop(context, now)}"
