"""Early stopping with Optuna: a study that is rebuilt from rows for each decision decides as one that lasts."""

import math
from dataclasses import replace
from typing import Any

import pytest
from optuna.trial import TrialState as OptunaState

from lambdas.core.study import pruning, rungs, sampling
from lambdas.core.study.rungs import Reached
from lambdas.core.study.sampling import Sampling
from tests.unit.core.study.builders import study_of, trial
from trainyard.core.jobfile.study_rules import in_order, is_active
from trainyard.core.model.study import Study
from trainyard.protocol.ledger.study import RungRow, TrialRow, TrialState
from trainyard.protocol.objective import Point
from trainyard.values.serialization import Measure

EPOCHS = 27
TRIALS = 60
SPACE: dict[str, Any] = {"args.lr": {"log": [1e-4, 0.1]}, "args.units": {"integers": [16, 256]}}
Outcome = tuple[dict[str, Any], int | None]
"""The values of a trial, and the epoch at which it was stopped."""


def curve(values: dict[str, Any], epoch: int) -> float:
    """Return an accuracy that rises with the epoch, faster for some learning rates."""
    distance = abs(math.log10(values["args.lr"]) + 2) + abs(values["args.units"] - 100) / 400
    return float((1 - distance / 4) * (1 - math.exp(-epoch * (0.1 + values["args.lr"]))))


def search_from_rows(study: Study) -> list[Outcome]:
    """Search with a study that is rebuilt from rows for each draw and for each rung."""
    rows, known, outcomes = list[TrialRow](), list[RungRow](), list[Outcome]()
    for number in range(1, TRIALS + 1):
        drawn = Sampling(study, rows).draw(number)
        assert drawn
        values = dict(drawn.values)
        row = trial(number, TrialState.COMPLETE, values=values, attributes=drawn.attributes)
        row, stopped = replace(row, value=curve(values, EPOCHS)), None
        for epoch in range(1, EPOCHS + 1):
            point = Point(step=epoch, epoch=epoch, value=Measure(curve(values, epoch)))
            for mine in rungs.reached(study.pruner, [point]):
                if any((each.step, each.number) == (mine.rung, number) for each in known):
                    continue
                judged = pruning.judge(study, number, mine, known)
                known.append(
                    RungRow(step=mine.rung, number=number, value=mine.value, attributes=judged.attributes)
                )
                if judged.reason:
                    stopped = mine.rung
            if stopped:
                row = replace(row, state=TrialState.STOPPED, value=curve(values, stopped), step=stopped)
                break
        rows.append(row)
        outcomes.append((values, stopped))
    return outcomes


def search_with_optuna(study: Study) -> list[Outcome]:
    """Search with one study of Optuna that lasts, with the same seeds."""
    lasting, outcomes = pruning.create_study(study), list[Outcome]()
    for number in range(1, TRIALS + 1):
        lasting.sampler = sampling.sampler_of(study.sampler, sampling._seed(f"{study.seed}/{number}/0"))
        asked, values = lasting.ask(), dict[str, Any]()
        for path, parameter in in_order(study.parameters).items():
            if is_active(parameter, values):
                values[path] = sampling._suggest(asked, path, parameter)
        stopped = None
        for epoch in range(1, EPOCHS + 1):
            asked.report(curve(values, epoch), epoch)
            if asked.should_prune():
                stopped = epoch
                break
        if stopped:
            lasting.tell(asked, state=OptunaState.PRUNED)
        else:
            lasting.tell(asked, curve(values, EPOCHS))
        outcomes.append((values, stopped))
    return outcomes


@pytest.mark.parametrize("rule", ["successive_halving", "hyperband"])
@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_rebuilt_study_stops_the_trials_that_a_lasting_one_stops(rule: str, sampler: str) -> None:
    study = study_of(SPACE, sampler=sampler, pruner={"rule": rule, "start": 1, "end": EPOCHS})
    rebuilt = search_from_rows(study)
    assert rebuilt == search_with_optuna(study)
    assert 5 < sum(stopped is not None for _, stopped in rebuilt) < TRIALS


def test_a_study_without_the_stored_attributes_stops_less() -> None:
    """The rows of the rungs store them: without, each trial is the first at its rung."""
    study = study_of(SPACE, pruner={"rule": "successive_halving", "start": 4})
    rows = [RungRow(step=4, number=number, value=0.9, attributes={}) for number in (1, 2, 3)]
    assert pruning.judge(study, 4, Reached(4, 0.1), rows).reason is None


def test_the_reason_names_the_value_and_the_others() -> None:
    study = study_of(SPACE, pruner={"rule": "successive_halving", "start": 4})
    rows = [
        RungRow(step=4, number=number, value=number / 10, attributes={"completed_rung_0": number / 10})
        for number in (5, 6, 7)
    ]
    judged = pruning.judge(study, 8, Reached(4, 0.1), rows)
    assert judged.reason == (
        "at epoch 4 its accuracy is 0.1; 3 other trials there had 0.5 to 0.7, and only the best third continues "
        "(successive_halving)"
    )
    assert judged.attributes == {"completed_rung_0": 0.1}
