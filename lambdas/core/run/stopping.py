"""What becomes of a run that a person wants to stop, by where it is. Pure."""

from datetime import datetime, timedelta

from lambdas.core.run.conclusion.steps import walk
from lambdas.core.run.leaving import last_save
from lambdas.core.run.records import Records
from trainyard.protocol.ledger.attempt import Ending
from trainyard.values.lazy import dataclass

TO_LEAVE = timedelta(minutes=3)
"""How long a gang that was asked has to save and say that it has left; who has not by then never will."""


@dataclass(frozen=True)
class LetItEnd:
    """Its program has finished, or its hosts are being released: it is about to end by itself."""

    reason: str


@dataclass(frozen=True)
class AskGang:
    """Its hosts are there: they save, if they train, and leave."""


@dataclass(frozen=True)
class GiveTime:
    """They were asked, and have their time."""


@dataclass(frozen=True)
class EndAttempt:
    """They were asked, and do not answer."""


@dataclass(frozen=True)
class StopExecution:
    """No gang is there: nothing is to be saved, and nobody to be asked."""


Deed = LetItEnd | AskGang | GiveTime | EndAttempt | StopExecution


def decide(records: Records, asked: datetime | None, now: datetime) -> Deed:
    """`asked` is when the gang was asked to leave, None before that."""
    run, row = records.run, records.attempts.get(records.run.attempt)
    if row and row.ending is Ending.FINISHED:
        return LetItEnd("its program has finished")
    if run.state in ("Release", "Conclude"):
        return LetItEnd("its hosts are being released")
    if row is None or row.ending is not None:
        return StopExecution()
    if asked is None:
        return AskGang()
    return GiveTime() if now - asked < TO_LEAVE else EndAttempt()


def reason(records: Records, now: datetime, step: int | None = None) -> str:
    """Who has stopped it, how far it had come and what of that is saved; `step`: as somebody says now."""
    reached = [each for each in (step, walk(tuple(records.attempts.values())).done) if each is not None]
    after = f" after step {max(reached):,}" if reached else ""
    return f"{records.run.stopped_by or 'somebody'} has stopped the run{after}; {last_save(records, now)}"
