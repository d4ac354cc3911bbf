"""What patrol says: a run's hours or dollars are used up, so that its gang checkpoints and leaves, and the run ends;
somebody has stopped it, and it goes on; it may have more hosts; or the ledger has lost a run that has hosts, so that no
signal of theirs counts."""

from datetime import datetime
from typing import assert_never

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import attempt_row, event_row
from lambdas.core.run import deadlines
from lambdas.core.run.conclusion import steps
from lambdas.core.run.recovery import Trouble
from lambdas.core.run.stopping import TO_LEAVE
from lambdas.steps.observability import logger
from lambdas.steps.signals import from_people, newcomers
from lambdas.steps.signals.context import SignalContext
from lambdas.steps.signals.events import AtCap, Forgotten, MayGrow, PatrolNews, StillStopping
from trainyard.protocol.timeline import Source


def handle(context: SignalContext, news: PatrolNews, now: datetime) -> str:
    """Do what patrol asks for, and return the result for the log."""
    match news:
        case AtCap():
            return _capped(context, now)
        case StillStopping():
            return from_people.go_on(context, now)
        case MayGrow():
            return newcomers.go_on(context, now)
        case Forgotten():
            context.ledger.known(context.run)  # raises what ends the run
            return "the ledger knows the run after all"
        case unknown:
            assert_never(unknown)


def _capped(context: SignalContext, now: datetime) -> str:
    """The first time the gang is asked to leave; a gang that cannot be asked, or does not, ends all the same."""
    records = context.live()
    row = records.attempts.get(context.attempt) if records else None
    if records is None or row is None or row.ending is not None:
        return "the attempt is over"
    step = steps.walk(records.attempts.values()).done
    reason = deadlines.used_up(records, context.attempt, now, step=step)
    if reason is None:
        return "its hours and dollars last"
    if row.capped is None:
        asked = _ask(context, reason, now)
        if asked:
            return f"{reason}: the gang is asked to checkpoint"
    elif now - row.capped < TO_LEAVE:
        return "the gang has been asked, and has its time"
    trouble = Trouble(error="LimitReached", reason=reason, step=step, final=True)
    over = context.entry(
        "capped", at=now, source=Source.WORKFLOW, reason=f"{reason}; nobody on its hosts answers"
    )
    context.end(over, now, trouble=trouble, step=row.reached)
    return f"{reason}: the attempt is over"


def _ask(context: SignalContext, reason: str, now: datetime) -> bool:
    """Whether anybody could be asked. Written first: what the hosts then signal counts as the cap's doing."""
    entry = context.entry("cap reached", at=now, source=Source.WORKFLOW, reason=reason)
    try:
        context.ledger.write(
            attempt_row(context.run, context.attempt, {"capped": now}, unless="capped"),
            event_row(context.run, entry),
        )
    except AlreadyWrittenError:
        logger.info("%s: another patrol has asked", context.run)
        return True
    return context.ask_to_stop(context.ledger.known(context.run), besides=())
