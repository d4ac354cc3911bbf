"""Early stopping: a trial whose objective reaches a rung is compared with the other trials there.

Each trial has one value at a rung, the first one. A trial that is worse saves and stops."""

from datetime import datetime

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import event_row, run_row
from lambdas.aws.dynamodb.studies import Studies, rung_row
from lambdas.core.study import rungs
from lambdas.steps.observability import logger
from lambdas.steps.signals import from_people
from lambdas.steps.signals.context import SignalContext
from trainyard.core.model.job import Job
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
    reached = rungs.reached(study.pruner, signal.objective) if study else None
    if study is None or reached is None:
        return None
    mine = RungRow(step=reached.rung, number=int(trial["number"]), value=reached.value)
    try:
        context.ledger.write(rung_row(trial["study"], mine))
    except AlreadyWrittenError:
        logger.info("%s has a value at the rung %s already", context.run, mine.step)
        return None
    rows = Studies(context.ledger.table).rung(trial["study"], mine.step)
    others = [each.value for each in rows if each.number != mine.number]
    reason = rungs.judge(study.pruner, study.objective, reached, others)
    return (
        None
        if reason is None
        else _stop(context, Pruned(rung=mine.step, value=Measure(mine.value), reason=reason), now)
    )


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
