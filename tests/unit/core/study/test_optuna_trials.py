"""The export of a study: Optuna's own load_study reads it, with an equal best trial."""

from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState as OptunaState

from tests.unit.core.study.builders import study_of, trial
from trainyard.core import optuna_trials
from trainyard.protocol.ledger.study import TrialState

NAME = "digits-0a1b2c3d"
LR = {"args.lr": 0.01}
ROWS = [
    trial(1, TrialState.COMPLETE, value=0.5, values=LR | {"args.optimizer": "sgd", "args.momentum": 0.5}),
    trial(2, TrialState.COMPLETE, value=0.9, values=LR | {"args.optimizer": "adam"}),
    trial(3, TrialState.STOPPED, value=0.2, step=4, values=LR),
    trial(4, TrialState.FAILED, values=LR, reason="it raised"),
    trial(5, TrialState.LOST, values=LR),
    trial(6, TrialState.STARTED, values=LR),
]


@pytest.mark.parametrize(("goal", "best"), [("maximize", 2), ("minimize", 1)])
def test_optuna_reads_an_exported_study(tmp_path: Path, goal: str, best: int) -> None:
    section: dict[str, Any] = {} if goal == "maximize" else {"maximize": None, "minimize": "loss"}
    study = study_of(**section)
    storage = f"sqlite:///{tmp_path / 'digits.db'}"
    assert optuna_trials.export(study, NAME, ROWS, storage) == 5
    read = optuna.load_study(study_name=NAME, storage=storage)
    assert (read.direction.name, read.best_value) == (goal.upper(), ROWS[best - 1].value)
    assert read.best_params == ROWS[best - 1].values
    assert read.best_trial.user_attrs["run"] == f"{NAME}-000{best}-trial"
    assert [each.state for each in read.trials] == [
        OptunaState.COMPLETE,
        OptunaState.COMPLETE,
        OptunaState.PRUNED,
        OptunaState.FAIL,
        OptunaState.FAIL,
    ]
    assert read.trials[2].intermediate_values == {4: 0.2}
    assert read.trials[3].user_attrs["reason"] == "it raised"


def test_a_retrained_trial_with_values_beside_the_parameters_is_exported(tmp_path: Path) -> None:
    rows = [trial(1, TrialState.COMPLETE, value=0.9, values=LR | {"args.epochs": 60})]
    storage = f"sqlite:///{tmp_path / 'digits.db'}"
    assert optuna_trials.export(study_of(), NAME, rows, storage) == 1
    (read,) = optuna.load_study(study_name=NAME, storage=storage).trials
    assert (read.params, read.user_attrs["args.epochs"]) == (LR, 60)
