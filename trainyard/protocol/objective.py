"""The objective of a job, which compares its runs, and the names of metrics."""

import math
from dataclasses import field
from enum import StrEnum

from trainyard.values.fields import Choice, Text, required
from trainyard.values.lazy import dataclass
from trainyard.values.serialization import Measure

MOST_SCALARS = 32
"""The most metrics of a run besides step, epoch, loss, accuracy and pace."""
MOST_POINTS = 16
"""The most values of the objective in one signal: the newest ones."""
SCALAR = r"[A-Za-z0-9_][A-Za-z0-9_./@:+()-]{0,63}"
METRIC = Text(SCALAR, "the name of a metric: 1 to 64 letters, digits and _ . / @ : + ( ) -")


class Goal(StrEnum):
    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A metric that compares runs."""

    metric: str = field(metadata=required(METRIC, "The name of the metric. `val_accuracy` is an example."))
    goal: Goal = field(
        metadata=required(
            Choice(Goal), "`maximize`: the largest value is the best. `minimize`: the smallest."
        )
    )

    def is_better(self, value: float, other: float) -> bool:
        """Return True if a value is better than another one. Every number is better than NaN."""
        if math.isnan(value) or math.isnan(other):
            return not math.isnan(value)
        return value > other if self.goal is Goal.MAXIMIZE else value < other


@dataclass(frozen=True, kw_only=True)
class Point:
    """A value of the objective."""

    step: int
    epoch: int | None = None
    """None if the program does not report the epoch."""
    value: Measure
