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
    trial(7, TrialState.COMPLETE, value=0.95, drawn_by=DrawnBy.RETRAIN),
]


def folders(*numbers: int, of: str) -> set[str]:
    return {f"runs/{NAME}-{number:04}-trial/{of}/" for number in numbers}


@pytest.mark.parametrize(
    ("keep", "minimizes", "models", "checkpoints"),
    [
        (1, False, [1, 3, 4, 5, 6], [1, 4, 5]),
        (2, False, [1, 3, 4, 6], [1, 4]),
        (1, True, [2, 3, 4, 5, 6], [2, 4, 5]),
        (10, False, [3, 4, 6], [4]),
    ],
)
def test_the_best_trials_keep_their_files_and_stopped_ones_their_checkpoints(
    keep: int, minimizes: bool, models: list[int], checkpoints: list[int]
) -> None:
    goal: dict[str, Any] = {"maximize": None, "minimize": "loss"} if minimizes else {}
    study = study_of(keep=keep, **goal)
    deleted = {*keeping.deleted_folders(study, NAME, ROWS)}
    assert deleted == folders(*models, of="model") | folders(*checkpoints, of="checkpoints")
