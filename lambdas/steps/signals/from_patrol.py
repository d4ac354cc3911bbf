"""Events of patrol: a run is at its cap, so that its gang checkpoints and the run ends; a stopped run still continues;
a run may grow; or the ledger lost the rows of a run with hosts, whose signals are ignored since."""

from datetime import datetime
from typing import assert_never

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import attempt_row, event_row
from lambdas.core.run import deadlines
from lambdas.core.run.conclusion import steps
from lambdas.core.run.recovery import Trouble
from lambdas.core.run.stopping import TO_LEAVE
from lambdas.steps.observability import logger
from lambdas.steps.signals import from_people, joining, warm_hosts
from lambdas.steps.signals.context import SignalContext
from lambdas.steps.signals.events import (
    AtCap,
    Forgotten,
    Leave,
    MayGrow,
    PatrolEvent,
    RunsEnded,
    StillStopping,
    StudyEnds,
)
from trainyard.protocol.timeline import Source
from trainyard.protocol.trial import STUDY


def handle(context: SignalContext, message: PatrolEvent, now: datetime) -> str:
    """Handle the event of patrol; return the result for the log."""
    match message:
        case AtCap():
            return _handle_cap(context, now)
        case StillStopping():
            return from_people.continue_stop(context, now)
        case MayGrow():
            return joining.continue_growth(context, now)
        case Forgotten():
            context.ledger.require(context.run)  # raises the error that ends the run
            return "the run is in the ledger again"
        case StudyEnds():
            return f"{from_people.stop(context, STUDY, now)}; {warm_hosts.end(context, STUDY, now)}"
        case RunsEnded():
            from lambdas.steps import dependencies  # few runs wait, so that signal starts faster

            return dependencies.answer(context.ledger, context.run, now)
        case Leave():
            from lambdas.steps.signals import (
                leaving,
            )  # few runs leave for others, so that signal starts faster

            return leaving.handle(context, message, now)
        case unknown:
            assert_never(unknown)


def _handle_cap(context: SignalContext, now: datetime) -> str:
    """Ask the gang to leave the first time. End the attempt if no host can be asked, or if the gang does not leave in
    time."""
    records = context.live()
    row = records.attempts.get(context.attempt) if records else None
    if records is None or row is None or row.ending is not None:
        return "the attempt is over"
    step = steps.walk(records.attempts.values()).done
    reason = deadlines.used_up(records, context.attempt, now, step=step)
    if reason is None:
        return "the run has hours and dollars left"
    if row.capped is None:
        asked = _order_gang(context, reason, now)
        if asked:
            return f"{reason}: the gang is asked to checkpoint"
    elif now - row.capped < TO_LEAVE:
        return "the gang was asked and may still save"
    trouble = Trouble(error="LimitReached", reason=reason, step=step, final=True)
    over = context.entry("capped", at=now, source=Source.WORKFLOW, reason=f"{reason}; no host answers")
    context.end(over, now, trouble=trouble, step=row.last_step)
    return f"{reason}: the attempt is over"


def _order_gang(context: SignalContext, reason: str, now: datetime) -> bool:
    """Record the cap, then ask the gang to leave; return whether a host could be asked. The record comes first, so that
    later signals of the hosts count as effects of the cap."""
    entry = context.entry("cap reached", at=now, source=Source.WORKFLOW, reason=reason)
    try:
        context.ledger.write(
            attempt_row(context.run, context.attempt, {"capped": now}, unless="capped"),
            event_row(context.run, entry),
        )
    except AlreadyWrittenError:
        logger.info("%s: another pass of patrol asked the gang before", context.run)
        return True
    return context.order_to_stop(context.ledger.require(context.run), besides=())
