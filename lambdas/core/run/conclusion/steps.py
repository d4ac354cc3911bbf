"""How far a run has come, attempt by attempt, and what it had to train again."""

from collections.abc import Iterable
from itertools import pairwise

from trainyard.protocol.ledger.attempt import AttemptRow
from trainyard.values.lazy import dataclass


@dataclass(frozen=True)
class Steps:
    """`done` is the step at which the run stands, None before its first; `lost` the sum over all restarts of what was
    trained before each, less where it resumed, None where nobody knows: the program tells no steps."""

    done: int | None
    lost: int | None


def walk(attempts: Iterable[AttemptRow]) -> Steps:
    """What the attempts, in any order, come to. One that resumes stands where it resumed, though it may be lost before
    its first word; one that never started moves nothing."""
    ordered = sorted(attempts, key=lambda row: row.attempt)
    if all(attempt.reached is None for attempt in ordered) and any(attempt.saved for attempt in ordered):
        return Steps(None, None if sum(attempt.started is not None for attempt in ordered) > 1 else 0)
    done, lost = None, 0
    for attempt in ordered:
        if attempt.started:
            begins = resumed_at(attempt)
            lost += max(0, (done or 0) - begins)
            done = begins or (0 if done else None)
        if attempt.reached is not None:
            done = max(done or 0, attempt.reached)
    return Steps(done, lost)


def seconds_lost(attempts: Iterable[AttemptRow]) -> float:
    """How long its recoveries have kept a training from going on: from each attempt's end until the next one's program
    started; of one that never came so far, until that ended."""
    total = 0.0
    for before, after in pairwise(sorted(attempts, key=lambda row: row.attempt)):
        goes_on = after.started or after.ended
        if before.ended and goes_on:
            total += max(0.0, (goes_on - before.ended).total_seconds())
    return round(total, 3)


def resumed_at(attempt: AttemptRow) -> int:
    """The step the program says, else that of the checkpoint it was given; 0 from the beginning."""
    step = attempt.resumed.get("step") if attempt.resumed else None
    return int(step if step is not None else attempt.from_step or 0)
