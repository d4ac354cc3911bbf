"""A run leaves its hosts for a waiting run of a higher priority: it saves, its attempt ends as preempted, and it waits
in the queue in the state Launch.

Patrol decides this, and repeats it each minute until the run waits. The order is recorded before it is given, so that a
killed function loses nothing."""

from datetime import datetime

from lambdas.aws import s3
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import attempt_row, event_row, leaving_row, run_row, slot_given
from lambdas.core.run import draining, preemption
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.core.run.stopping import TO_LEAVE
from lambdas.steps.observability import note
from lambdas.steps.signals.context import SignalContext
from lambdas.steps.signals.events import Leave
from trainyard.protocol import cluster, keys
from trainyard.protocol.ledger.run import Preemption
from trainyard.protocol.timeline import Source


def handle(context: SignalContext, message: Leave, now: datetime) -> str:
    """Order the run to leave, or take the next step of a preemption that has begun; return the result for the log."""
    records = context.open_run()
    if records is None or records.run.stopping:
        return "the run is over, or ends"
    context = context.for_attempt(records.run.attempt)
    if records.run.leaves_for:
        return _continue(context, records, now)
    if message.given is None:
        return "it has left before"
    if stays := preemption.why_stays(records, now):
        return f"it stays: {stays}"
    if not preemption.needs_slot(context.ledger.run(message.by)):
        return f"it stays: {message.by} needs no slot any more"
    left = Preemption(run=message.by, priority=message.priority, attempt=context.attempt, at=now)
    if not _record(context, records, left, message.given, now):
        return "it stays: slots were given since the decision, or another run leaves"
    context.order_to_stop(records, besides=())
    return f"the gang is asked to checkpoint: {message.by} of priority {message.priority} needs the slot"


def read_saved_step(context: SignalContext) -> int | None:
    """Return the step of the last checkpoint in the bucket, where the run continues; None without a step."""
    latest = s3.get_json(context.yard.bucket_name, keys.latest_checkpoint(context.run))
    checkpoint = cluster.checkpoint_of(latest)
    return (checkpoint.at_step or checkpoint.step) if checkpoint else None


def _record(
    context: SignalContext, records: Records, left: Preemption, slots_given: int, now: datetime
) -> bool:
    """Record the preemption; return False if the decision is void. The count of slots excludes a second preemption, and
    an admission, that was decided at the same time."""
    needs = f"run {left.run} of priority {left.priority} needs its slot: it saves and waits in the queue"
    own = records.job.priority if records.job else 0
    makes_room = (
        f"run {context.run} of priority {own} saves and leaves its hosts, so that this run gets its slot"
    )
    try:
        context.ledger.write(
            slot_given(slots_given),
            leaving_row(context.run, left.run),
            attempt_row(context.run, context.attempt, {"preempted": now}, unless="preempted"),
            run_row(context.run, {"preempted": left}, unless="ended"),
            event_row(
                context.run, context.entry("making room", at=now, source=Source.WORKFLOW, reason=needs)
            ),
            event_row(left.run, note("making room", makes_room, at=now)),
        )
    except AlreadyWrittenError:
        return False
    return True


def _continue(context: SignalContext, records: Records, now: datetime) -> str:
    """Order the gang again, because the first call may have died; end the attempt if the gang does not leave in time,
    or if its program does not run yet."""
    row, left = records.attempts.get(context.attempt), records.run.leaves_for
    if row is None or row.ending is not None or left is None:
        return "the attempt is over; the next launch waits in the queue"
    if row.preempted is None:  # hosts were lost meanwhile, and the run continues with another attempt
        context.ledger.write(attempt_row(context.run, context.attempt, {"preempted": now}))
    if now - (row.preempted or now) < TO_LEAVE and context.order_to_stop(records, besides=()):
        return "the gang is asked to checkpoint"
    reason = draining.describe_preemption(records, left, read_saved_step(context))
    trouble = Trouble(error="Preempted", reason=reason, step=row.last_step)
    over = context.entry("preempted", at=now, source=Source.WORKFLOW, reason=f"{reason}; no host answers")
    context.end(over, now, trouble=trouble, step=row.last_step)
    return "the attempt is over"
