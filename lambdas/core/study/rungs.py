"""Early stopping: the rungs of a trial, and the comparison of its value with other trials at a rung. Pure.

Trials are compared at equal steps, at the rung itself. A rung stops no trial before it has LEAST_VALUES values.
"""

from collections.abc import Sequence
from math import isnan

from trainyard.core.model.study import Pruner, Rule, Unit
from trainyard.protocol.objective import Objective, Point
from trainyard.values.lazy import dataclass

FACTOR = 3
"""Each rung is this many times as far as the one before."""
LEAST_VALUES = 4
"""The least number of values at a rung, including the judged one, that stops a trial."""


@dataclass(frozen=True)
class Reached:
    """A rung that a trial has reached, with the trial's value there."""

    rung: int
    value: float
    at: int | None = None
    """The step at which the program reported the value."""


def reached(pruner: Pruner, points: Sequence[Point]) -> tuple[Reached, ...]:
    """Return the rungs that the points reach, each with the first value at or past it. Points are sorted by step. A
    program may recover from NaN, so NaN reaches no rung."""
    found: dict[int, Reached] = {}
    for point in points:
        at = point.epoch if pruner.by is Unit.EPOCH else point.step
        rung, value = _last_rung(pruner.start, at), float(point.value)
        if rung is not None and not isnan(value) and rung > max(found, default=0):
            found[rung] = Reached(rung, value, point.step)
    return () if pruner.rule is Rule.NONE else tuple(found.values())


def judge(pruner: Pruner, objective: Objective, mine: Reached, others: Sequence[float]) -> str | None:
    """Return why the trial stops at the rung by the rule `median`, or None if it continues. `others` are the values of
    other trials at this rung."""
    if len(others) + 1 < LEAST_VALUES:
        return None
    from statistics import median  # only a trial at a rung needs it

    limit = median(others)
    if objective.is_better(limit, mine.value):
        where = describe(pruner, objective, mine)
        return f"{where}; the median of {len(others)} other trials there is {limit:.6g}"
    return None


def describe(pruner: Pruner, objective: Objective, mine: Reached) -> str:
    """Return the value of a trial at a rung, in words."""
    return f"at {pruner.by} {mine.rung} its {objective.metric} is {mine.value:.6g}"


def _last_rung(start: int, at: int | None) -> int | None:
    if at is None or at < start:
        return None
    rung = start
    while rung * FACTOR <= at:
        rung *= FACTOR
    return rung
