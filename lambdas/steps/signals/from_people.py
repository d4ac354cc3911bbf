"""What people say: stop, and cool. A run that somebody stops saves, where it trains, and ends as `stopped`; one that is
cooled keeps no hosts in the pool any more."""

from datetime import datetime
from typing import assert_never

from lambdas.aws import states
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import attempt_row, event_row, run_row
from lambdas.core.run import stopping
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.core.run.stopping import AskGang, EndAttempt, GiveTime, LetItEnd, StopExecution
from lambdas.steps.observability import logger
from lambdas.steps.signals.context import SignalContext
from trainyard.core.model.errors import Stopped
from trainyard.protocol.timeline import Source


def stop(context: SignalContext, by: str, now: datetime) -> str:
    """Stop a run because a person wants it, and return the result for the log."""
    records = context.open_run()
    if records is None:
        return "the run is over, or unknown"
    if records.run.kind != "train":
        return f"a {records.run.kind} saves nothing: stop its execution"
    entry = context.entry("stop asked", at=now, source=Source.WORKFLOW, reason=f"{by} wants the run to stop")
    try:
        stopped = run_row(context.run, {"stopping": now, "stopped_by": by}, unless="stopping")
        context.ledger.write(stopped, event_row(context.run, entry))
    except AlreadyWrittenError:
        logger.info("%s: somebody has stopped it before", context.run)
    return go_on(context, now)


def go_on(context: SignalContext, now: datetime) -> str:
    """The next step of a run that somebody has stopped. Patrol asks for it each minute until the run is over."""
    records = context.open_run()
    if records is None or records.run.stopping is None:
        return "the run is over, or nobody has stopped it"
    context = context.about(records.run.attempt)
    row = records.attempts.get(context.attempt)
    match stopping.decide(records, row.asked_to_stop if row else None, now):
        case LetItEnd(reason=reason):
            return f"the run ends by itself: {reason}"
        case AskGang():
            if _ask(context, now):
                return "the gang is asked to checkpoint"
            return _end(context, records, now)
        case GiveTime():
            return "the gang has been asked, and has its time"
        case EndAttempt():
            return _end(context, records, now)
        case StopExecution():
            trouble = Trouble(error=Stopped.__name__, reason=stopping.reason(records, now), final=True)
            stopped = states.stop(records.run.execution_arn, trouble)
            return "its execution is stopped" if stopped else "its execution is over"
        case deed:
            assert_never(deed)


def _ask(context: SignalContext, now: datetime) -> bool:
    """Whether anybody could be asked. Written first: nobody is asked twice."""
    try:
        context.ledger.write(
            attempt_row(context.run, context.attempt, {"asked_to_stop": now}, unless="asked_to_stop")
        )
    except AlreadyWrittenError:
        return True
    return context.ask_to_stop(context.ledger.known(context.run), besides=())


def _end(context: SignalContext, records: Records, now: datetime) -> str:
    """No program runs on its hosts yet, or none of them answers."""
    end(context, records, None, now)
    return "the attempt is over"


def end(context: SignalContext, records: Records, step: int | None, now: datetime) -> None:
    """The attempt of a run that somebody has stopped is over; `step` is the last that its hosts have told."""
    reason = stopping.reason(records, now, step)
    trouble = Trouble(error=Stopped.__name__, reason=reason, step=step, final=True)
    over = context.entry("stopped", at=now, source=Source.WORKFLOW, reason=reason)
    row = records.attempts[context.attempt]
    context.end(over, now, trouble=trouble, step=row.reached_with(step))
