"""The dollars that a study needs for a further trial. Pure."""

from collections.abc import Iterable
from statistics import median

from trainyard.protocol.ledger.study import DrawnBy, TrialRow, TrialState

LEAST_DOLLARS = 0.01
"""The least cap of a trial."""
COSTS_LEFT = 1.5
"""A trial starts if this many times the median cost of a complete trial is left."""


def dollars_for_a_trial(trials: Iterable[TrialRow]) -> float:
    """Return the dollars that must be left for a further trial."""
    costs = [
        row.dollars
        for row in trials
        if row.state is TrialState.COMPLETE
        and row.drawn_by is not DrawnBy.RETRAIN
        and row.dollars is not None
    ]
    return max(LEAST_DOLLARS, COSTS_LEFT * median(costs) if costs else 0.0)
