"""How far a run has come, attempt by attempt, and what it had to train again."""

from collections.abc import Iterable

from lambdas.core.run.records import AttemptRow
from lambdas.core.values.lazy import dataclass


@dataclass(frozen=True)
class Steps:
    """`done` is the step at which the run stands, None before its first; `lost` the sum over all restarts of what was
    trained before each, less where it resumed."""

    done: int | None
    lost: int


def walk(attempts: Iterable[AttemptRow]) -> Steps:
    """What the attempts, in any order, come to. One that resumes stands where it resumed, though it may be lost before
    its first word; one that never started moves nothing."""
    done, lost = None, 0
    for attempt in sorted(attempts, key=lambda row: row.attempt):
        if attempt.started:
            begins = resumed_at(attempt)
            lost += max(0, (done or 0) - begins)
            done = begins or (0 if done else None)
        if attempt.reached is not None:
            done = max(done or 0, attempt.reached)
    return Steps(done, lost)


def resumed_at(attempt: AttemptRow) -> int:
    """The step the program says, else that of the checkpoint it was given; 0 from the beginning."""
    step = attempt.resumed.get("step") if attempt.resumed else None
    return int(step if step is not None else attempt.from_step or 0)
