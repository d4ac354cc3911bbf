"""How a run stops, by its state, after a user stopped it. Pure."""

from datetime import datetime, timedelta

from lambdas.core.run.conclusion.steps import walk
from lambdas.core.run.draining import last_save
from lambdas.core.run.records import Records
from trainyard.protocol.ledger.attempt import Ending
from trainyard.values.lazy import dataclass

TO_LEAVE = timedelta(minutes=3)
"""How long a gang has to save and leave after the order. Later signals are not awaited."""


@dataclass(frozen=True)
class LetItEnd:
    """The program has finished, or the hosts are being released: the run is about to end by itself."""

    reason: str


@dataclass(frozen=True)
class OrderGang:
    """The hosts run: order them to save and leave."""


@dataclass(frozen=True)
class GiveTime:
    """The hosts were ordered to leave, and still have time."""


@dataclass(frozen=True)
class EndAttempt:
    """The hosts were ordered to leave, and did not answer."""


@dataclass(frozen=True)
class StopExecution:
    """No gang runs, so there is nothing to save."""


Action = LetItEnd | OrderGang | GiveTime | EndAttempt | StopExecution


def decide(records: Records, asked: datetime | None, now: datetime) -> Action:
    """Decide how the run stops. `asked` is when the gang was ordered to leave; None before."""
    run, row = records.run, records.attempts.get(records.run.attempt)
    if row and row.ending is Ending.FINISHED:
        return LetItEnd("its program has finished")
    if run.state in ("Release", "Conclude"):
        return LetItEnd("its hosts are being released")
    if row is None or row.ending is not None:
        return StopExecution()
    if asked is None:
        return OrderGang()
    return GiveTime() if now - asked < TO_LEAVE else EndAttempt()


def reason(records: Records, now: datetime, step: int | None = None) -> str:
    """Return who stopped the run, the step it reached, and what is saved. `step` is the newest report."""
    reached = [each for each in (step, walk(tuple(records.attempts.values())).done) if each is not None]
    after = f" after step {max(reached):,}" if reached else ""
    return f"{records.run.stopped_by or 'A user'} has stopped the run{after}; {last_save(records, now)}"
