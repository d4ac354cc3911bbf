"""Early stopping: the rungs of a trial, and the comparison of its value with other trials at a rung. Pure.

Trials are compared at equal steps, at the rung itself. A rung stops no trial before it has LEAST_VALUES values.
"""

from collections.abc import Sequence
from math import isnan
from statistics import median

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


def reached(pruner: Pruner, points: Sequence[Point]) -> Reached | None:
    """Return the last rung that the points reach, with the first value at or past it. Points are sorted by step."""
    found = None
    for point in points:
        at = point.epoch if pruner.by is Unit.EPOCH else point.step
        rung = _last_rung(pruner.start, at)
        if rung is not None and (found is None or rung > found.rung):
            found = Reached(rung, float(point.value))
    return None if pruner.rule is Rule.NONE else found


def judge(pruner: Pruner, objective: Objective, mine: Reached, others: Sequence[float]) -> str | None:
    """Return why the trial stops at the rung, or None if it continues. `others` are the values of other trials at this
    rung."""
    values = [value for value in others if not isnan(value)]
    if isnan(mine.value):
        return None  # A program may recover from NaN; the run reports it.
    if len(values) + 1 < LEAST_VALUES:
        return None
    where = f"at {pruner.by} {mine.rung} its {objective.metric} is {mine.value:.6g}"
    if pruner.rule is Rule.MEDIAN:
        limit = median(values)
        if objective.is_better(limit, mine.value):
            return f"{where}; the median of {len(values)} other trials there is {limit:.6g}"
        return None
    best_first = sorted([*values, mine.value], reverse=objective.is_better(1.0, 0.0))
    limit = best_first[max(len(best_first) // FACTOR, 1) - 1]
    if objective.is_better(limit, mine.value):
        return f"{where}; the best third of {len(best_first)} trials there has at least {limit:.6g}"
    return None


def _last_rung(start: int, at: int | None) -> int | None:
    if at is None or at < start:
        return None
    rung = start
    while rung * FACTOR <= at:
        rung *= FACTOR
    return rung
