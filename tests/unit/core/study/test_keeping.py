"""The files that a study deletes at its end."""

from typing import Any

import pytest

from lambdas.core.study import keeping
from tests.unit.core.study.builders import study_of, trial
from trainyard.protocol.ledger.study import DrawnBy, TrialState

NAME = "digits-0a1b2c3d"
ROWS = [
    trial(1, TrialState.COMPLETE, value=0.5),
    trial(2, TrialState.COMPLETE, value=0.9),
    trial(3, TrialState.STOPPED, value=0.1, step=4),
    trial(4, TrialState.FAILED),
    trial(5, TrialState.COMPLETE, value=0.7),
    trial(6, TrialState.CUT),
    trial(8, TrialState.STOPPED, value=0.05, step=12),
    trial(7, TrialState.COMPLETE, value=0.95, drawn_by=DrawnBy.RETRAIN),
]


def folders(*numbers: int, of: str) -> set[str]:
    return {f"runs/{NAME}-{number:04}-trial/{of}/" for number in numbers}


@pytest.mark.parametrize(
    ("keep", "minimizes", "deleted"),
    [
        (1, False, [1, 3, 4, 5, 6, 8]),
        (2, False, [1, 3, 4, 6, 8]),
        (1, True, [2, 3, 4, 5, 6, 8]),
        (4, False, [3, 4, 6]),
        (5, False, [4, 6]),
        (10, False, [4]),
    ],
)
def test_the_best_trials_keep_their_files_and_a_stopped_one_is_worse_than_every_complete_one(
    keep: int, minimizes: bool, deleted: list[int]
) -> None:
    goal: dict[str, Any] = {"maximize": None, "minimize": "loss"} if minimizes else {}
    found = keeping.deleted_folders(study_of(keep=keep, **goal), NAME, ROWS)
    assert {*found} == folders(*deleted, of="model") | folders(*deleted, of="checkpoints")


def test_the_checkpoints_that_an_open_run_has_resumed_stay() -> None:
    resumed = f"{NAME}-0003-trial"
    found = keeping.deleted_folders(study_of(), NAME, ROWS, {resumed})
    assert {*found} & (folders(3, of="model") | folders(3, of="checkpoints")) == folders(3, of="model")
