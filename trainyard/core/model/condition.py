"""A condition on a metric of a run, as in `accuracy >= 0.97`. Pure."""

import operator
import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from trainyard.protocol.objective import SCALAR
from trainyard.values.validation import any_of, did_you_mean

NUMBER = r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,2})?"
CONDITION = rf" *{SCALAR} *(?:>=|<=|>|<) *{NUMBER} *"
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
MOST_NAMED = 12


def find_unmet(condition: str, metrics: Mapping[str, Any]) -> str | None:
    """Return why the metrics do not meet the condition; None if they do."""
    metric, word, limit = re.split("(>=|<=|>|<)", condition)
    metric = metric.strip()
    found = metrics.get(metric)
    if not isinstance(found, int | float) or isinstance(found, bool):
        numbers = [name for name, value in metrics.items() if type(value) in (int, float)]
        there = any_of(numbers[:MOST_NAMED]) or "no number"
        return f"metrics.json has no number {metric}; it has {there}{did_you_mean(metric, numbers)}"
    if isfinite(found) and COMPARISONS[word](found, float(limit)):
        return None
    return f"{metric} is {found:g}, and after.model.when requires {condition.strip()}"
