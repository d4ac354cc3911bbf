"""Early stopping: rungs, and the comparison of trials at a rung."""

import pytest

from lambdas.core.study import rungs
from lambdas.core.study.rungs import Reached
from trainyard.core.model.study import Pruner, Rule, Unit
from trainyard.protocol.objective import Goal, Objective, Point
from trainyard.values.serialization import Measure

MEDIAN, HALVING = Pruner(start=4), Pruner(rule=Rule.HALVING, start=4)
HIGH, LOW = (Objective(metric="accuracy", goal=goal) for goal in (Goal.MAXIMIZE, Goal.MINIMIZE))
NAN = float("nan")


def points(*epochs: int) -> list[Point]:
    return [Point(step=100 * epoch, epoch=epoch, value=Measure(epoch / 100)) for epoch in epochs]


REACHED = [
    ("no value", MEDIAN, (), None),
    ("before the first rung", MEDIAN, (1, 3), None),
    ("at the first rung", MEDIAN, (3, 4), Reached(4, 0.04)),
    ("the value at the rung counts, not a later one", MEDIAN, (4, 5, 11), Reached(4, 0.04)),
    ("a skipped rung takes the next value", MEDIAN, (3, 6, 7), Reached(4, 0.06)),
    ("the second rung", MEDIAN, (4, 12), Reached(12, 0.12)),
    ("the last of several", MEDIAN, (4, 12, 40), Reached(36, 0.40)),
    ("in steps", Pruner(by=Unit.STEP, start=1000), (5, 10, 11), Reached(1000, 0.10)),
    ("never", Pruner(rule=Rule.NONE), (4, 12), None),
]


@pytest.mark.parametrize(("sentence", "pruner", "epochs", "found"), REACHED, ids=[row[0] for row in REACHED])
def test_the_rung_that_a_trial_has_reached(
    sentence: str, pruner: Pruner, epochs: tuple[int, ...], found: Reached | None
) -> None:
    assert rungs.reached(pruner, points(*epochs)) == found


def test_a_program_that_reports_no_epoch_reaches_no_rung_of_epochs() -> None:
    assert rungs.reached(MEDIAN, [Point(step=100, value=Measure(1.0))]) is None


JUDGED = [
    ("too few values", MEDIAN, HIGH, 0.1, (0.5, 0.6), False),
    ("below the median", MEDIAN, HIGH, 0.1, (0.5, 0.6, 0.7), True),
    ("at the median", MEDIAN, HIGH, 0.6, (0.5, 0.6, 0.7), False),
    ("above the median", MEDIAN, HIGH, 0.65, (0.5, 0.6, 0.7), False),
    ("a loss above the median", MEDIAN, LOW, 0.9, (0.5, 0.6, 0.7), True),
    ("a loss below the median", MEDIAN, LOW, 0.55, (0.5, 0.6, 0.7), False),
    ("NaN does not count", MEDIAN, HIGH, 0.1, (0.5, 0.6, NAN), False),
    ("NaN is the fault of the program", MEDIAN, HIGH, NAN, (0.5, 0.6, 0.7), False),
    ("the best third continues", HALVING, HIGH, 0.9, (0.1, 0.2, 0.3, 0.4, 0.95), False),
    ("the others stop", HALVING, HIGH, 0.5, (0.1, 0.6, 0.7, 0.4, 0.95), True),
    ("the best third of losses continues", HALVING, LOW, 0.1, (0.2, 0.3, 0.4, 0.5, 0.6), False),
    ("the other losses stop", HALVING, LOW, 0.4, (0.2, 0.3, 0.1, 0.5, 0.6), True),
]


@pytest.mark.parametrize(
    ("sentence", "pruner", "objective", "mine", "others", "stops"), JUDGED, ids=[row[0] for row in JUDGED]
)
def test_which_trials_stop_at_a_rung(
    sentence: str, pruner: Pruner, objective: Objective, mine: float, others: tuple[float, ...], stops: bool
) -> None:
    reason = rungs.judge(pruner, objective, Reached(4, mine), others)
    assert (reason is not None) == stops
    if reason:
        assert reason.startswith(f"at epoch 4 its accuracy is {mine:.6g}; ")


def test_the_reason_has_both_numbers() -> None:
    reason = rungs.judge(MEDIAN, HIGH, Reached(12, 0.25), (0.5, 0.6, 0.75))
    assert reason == "at epoch 12 its accuracy is 0.25; the median of 3 other trials there is 0.6"
