"""What patrol says: a run's hours or dollars are used up, so that its gang checkpoints and leaves, and the run ends; or
the ledger has lost a run that has hosts, so that nobody hears them."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from lambdas.aws.ledger import AlreadyWrittenError, attempt_row, event_row
from lambdas.core.model.timeline import Source
from lambdas.core.run import deadlines
from lambdas.core.run.recovery import Trouble
from lambdas.steps import attempts
from lambdas.steps.observability import logger
from lambdas.steps.signals.context import Hearing

SOURCE = "trainyard.patrol"
TO_LEAVE = timedelta(minutes=3)
"""How long a gang that was asked has to save and say that it has left; who has not by then never will."""


def listen(hearing: Hearing, event: Mapping[str, Any], now: datetime) -> str:
    """Do what patrol asks for; what came of it, for the log."""
    if event["detail-type"] == "cap":
        return _capped(hearing, now)
    if event["detail-type"] == "forgotten":
        hearing.ledger.known(hearing.run)  # raises what ends the run
        return "the ledger knows the run after all"
    return f"a word nobody knows: {event['detail-type']}"


def _capped(hearing: Hearing, now: datetime) -> str:
    """The first time the gang is asked to leave; a gang that cannot be asked, or does not, ends all the same."""
    records = hearing.live()
    row = records.attempts.get(hearing.attempt) if records else None
    if records is None or row is None or row.ending is not None:
        return "the attempt is over"
    step = (records.run.progress or {}).get("step")
    reason = deadlines.used_up(records, hearing.attempt, now, step=step)
    if reason is None:
        return "its hours and dollars last"
    if row.capped is None:
        asked = _ask(hearing, reason, now)
        if asked:
            return f"{reason}: the gang is asked to checkpoint"
    elif now - row.capped < TO_LEAVE:
        return "the gang has been asked, and has its time"
    trouble = Trouble(error="LimitReached", reason=reason, step=step, final=True)
    over = hearing.entry(
        "capped", at=now, source=Source.WORKFLOW, reason=f"{reason}; nobody on its hosts answers"
    )
    attempts.end(hearing.ledger, hearing.run, hearing.attempt, over, now, trouble=trouble, step=step)
    return f"{reason}: the attempt is over"


def _ask(hearing: Hearing, reason: str, now: datetime) -> bool:
    """Whether anybody could be asked. Written first: what the hosts then say is heard as the cap's doing."""
    entry = hearing.entry("cap reached", at=now, source=Source.WORKFLOW, reason=reason)
    try:
        hearing.ledger.write(
            attempt_row(hearing.run, hearing.attempt, {"capped": now}, unless="capped"),
            event_row(hearing.run, entry),
        )
    except AlreadyWrittenError:
        logger.info("%s: another patrol has asked", hearing.run)
        return True
    return bool(hearing.ask_to_stop(hearing.ledger.known(hearing.run), besides=()))
