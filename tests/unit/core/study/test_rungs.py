"""Early stopping: rungs, and the comparison of trials at a rung."""

import pytest

from lambdas.core.study import rungs
from lambdas.core.study.rungs import Reached
from trainyard.core.model.study import Pruner, Rule, Unit
from trainyard.protocol.objective import Goal, Objective, Point
from trainyard.values.serialization import Measure

MEDIAN = Pruner(start=4)
HIGH, LOW = (Objective(metric="accuracy", goal=goal) for goal in (Goal.MAXIMIZE, Goal.MINIMIZE))
NAN = float("nan")


def points(*epochs: int) -> list[Point]:
    return [Point(step=100 * epoch, epoch=epoch, value=Measure(epoch / 100)) for epoch in epochs]


REACHED = [
    ("no value", MEDIAN, (), ()),
    ("before the first rung", MEDIAN, (1, 3), ()),
    ("at the first rung", MEDIAN, (3, 4), (Reached(4, 0.04, 400),)),
    ("the value at the rung counts, not a later one", MEDIAN, (4, 5, 11), (Reached(4, 0.04, 400),)),
    ("a skipped rung takes the next value", MEDIAN, (3, 6, 7), (Reached(4, 0.06, 600),)),
    ("the second rung", MEDIAN, (4, 12), (Reached(4, 0.04, 400), Reached(12, 0.12, 1200))),
    ("no value before a later rung", MEDIAN, (40,), (Reached(36, 0.40, 4000),)),
    ("in steps", Pruner(by=Unit.STEP, start=1000), (5, 10, 11), (Reached(1000, 0.10, 1000),)),
    ("never", Pruner(rule=Rule.NONE), (4, 12), ()),
]


@pytest.mark.parametrize(("sentence", "pruner", "epochs", "found"), REACHED, ids=[row[0] for row in REACHED])
def test_the_rung_that_a_trial_has_reached(
    sentence: str, pruner: Pruner, epochs: tuple[int, ...], found: tuple[Reached, ...]
) -> None:
    assert rungs.reached(pruner, points(*epochs)) == found


def test_a_program_that_reports_no_epoch_reaches_no_rung_of_epochs() -> None:
    assert rungs.reached(MEDIAN, [Point(step=100, value=Measure(1.0))]) == ()


def test_a_program_that_recovers_from_nan_is_compared_by_its_next_value() -> None:
    values = [Point(step=4, epoch=4, value=Measure(NAN)), *points(5)]
    assert rungs.reached(MEDIAN, values) == (Reached(4, 0.05, 500),)


JUDGED = [
    ("too few values", MEDIAN, HIGH, 0.1, (0.5, 0.6), False),
    ("below the median", MEDIAN, HIGH, 0.1, (0.5, 0.6, 0.7), True),
    ("at the median", MEDIAN, HIGH, 0.6, (0.5, 0.6, 0.7), False),
    ("above the median", MEDIAN, HIGH, 0.65, (0.5, 0.6, 0.7), False),
    ("a loss above the median", MEDIAN, LOW, 0.9, (0.5, 0.6, 0.7), True),
    ("a loss below the median", MEDIAN, LOW, 0.55, (0.5, 0.6, 0.7), False),
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
