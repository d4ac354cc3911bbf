"""How far a run came, attempt by attempt, and what it had to train again."""

from collections.abc import Iterable
from itertools import pairwise

from trainyard.protocol.ledger.attempt import AttemptRow, Ending
from trainyard.values.lazy import dataclass


@dataclass(frozen=True)
class Steps:
    """The steps of a run."""

    done: int | None
    """The step that the run reached; None before its first."""
    lost: int | None
    """The steps that were trained again after restarts; None if the program reports no steps."""


def walk(attempts: Iterable[AttemptRow]) -> Steps:
    """Return the steps of these attempts, in any order. A resumed attempt begins at its resumed step even without a
    signal. An attempt that never started changes nothing."""
    ordered = sorted(attempts, key=lambda row: row.attempt)
    if all(attempt.last_step is None for attempt in ordered) and any(attempt.saved for attempt in ordered):
        return Steps(None, None if sum(attempt.started is not None for attempt in ordered) > 1 else 0)
    done, lost = None, 0
    for attempt in ordered:
        if attempt.started:
            begins = resumed_at(attempt)
            lost += max(0, (done or 0) - begins)
            done = begins or (0 if done else None)
        if attempt.last_step is not None:
            done = max(done or 0, attempt.last_step)
    return Steps(done, lost)


def seconds_lost(attempts: Iterable[AttemptRow]) -> float:
    """Return the seconds from each attempt's end until the start of the next one's program, or until that attempt ended
    without a start. The wait after a preemption is not lost, because another run had the slot."""
    total = 0.0
    for before, after in pairwise(sorted(attempts, key=lambda row: row.attempt)):
        goes_on = after.started or after.ended
        if before.ended and goes_on and before.ending is not Ending.PREEMPTED:
            total += max(0.0, (goes_on - before.ended).total_seconds())
    return round(total, 3)


def resumed_at(attempt: AttemptRow) -> int:
    """Return the step that the program reported after its restore, else the step of its checkpoint; 0 for a
    beginning."""
    step = attempt.resumed.get("step") if attempt.resumed else None
    return int(step if step is not None else attempt.from_step or 0)
