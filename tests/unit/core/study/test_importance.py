"""The importance of parameters."""

from dataclasses import replace

import pytest

from lambdas.core.study import importance
from tests.unit.core.study.builders import situation, study_of, trial
from trainyard.protocol.ledger.study import DrawnBy, TrialRow, TrialState

LR, UNITS = "args.lr", "args.units"
SECTION = study_of({LR: {"log": [1e-5, 0.1]}, UNITS: {"integers": [16, 256], "step": 16}})


def trials(count: int) -> list[TrialRow]:
    """Return complete trials whose metric depends on the rate only."""
    made = []
    for number in range(1, count + 1):
        share = (number * 7 % count) / count
        row = trial(
            number, TrialState.COMPLETE, values={LR: 10 ** (-5 + 4 * share), UNITS: 16 + 16 * (number % 15)}
        )
        made.append(replace(row, value=-abs(share - 0.5)))
    return made


def test_the_parameter_that_decides_the_metric_is_important() -> None:
    found = importance.measure(SECTION, trials(60))
    assert sum(found.values()) == pytest.approx(1, abs=0.001)
    assert found[LR] > 0.8


@pytest.mark.parametrize(
    "rows",
    [
        trials(9),
        [replace(row, state=TrialState.STOPPED) for row in trials(60)],
        [replace(row, drawn_by=DrawnBy.RETRAIN) for row in trials(60)],
        [replace(row, value=1.0) for row in trials(60)],
    ],
    ids=["few", "stopped", "retrained", "equal"],
)
def test_without_enough_results_nothing_is_important(rows: list[TrialRow]) -> None:
    assert importance.measure(SECTION, rows) == {}


@pytest.mark.parametrize(
    ("before", "now", "is_due"), [(0, 9, False), (9, 10, True), (10, 19, False), (8, 31, True)]
)
def test_it_is_measured_after_each_tenth_trial(before: int, now: int, is_due: bool) -> None:
    row = situation(SECTION).row
    assert importance.is_due(replace(row, reported=before), replace(row, reported=now)) is is_due
