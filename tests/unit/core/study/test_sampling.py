"""Samplers of Optuna, rebuilt from rows for each draw."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import optuna
import pytest

from lambdas.core.study import sampling
from lambdas.core.study.sampling import Sampling
from tests.unit.core.study.builders import study_of, trial
from trainyard.core.jobfile.study_rules import in_order, is_active
from trainyard.core.model.study import Study
from trainyard.core.model.study_fields import Point
from trainyard.protocol.ledger.study import TrialRow, TrialState

SAMPLERS = ["tpe", "cmaes", "random"]
WORST = -1e9


def score(values: Mapping[str, Any]) -> float:
    return float(-abs(math.log10(values["args.lr"]) + 2) - abs(values["args.units"] - 64) / 100)


def search(
    study: Study, count: int, *, keeps: bool = True, state: TrialState = TrialState.COMPLETE
) -> list[TrialRow]:
    """Return the trials of a study whose sampler is rebuilt for each trial."""
    rows = list[TrialRow]()
    for number in range(1, count + 1):
        drawn = Sampling(study, rows).draw(number)
        assert drawn
        attributes = drawn.attributes if keeps else {}
        row = trial(number, state, values=drawn.values, attributes=attributes)
        rows.append(replace(row, value=score(drawn.values)) if state is TrialState.COMPLETE else row)
    return rows


def search_with_optuna(study: Study, count: int) -> list[Point]:
    """Return the points of one study that lasts, with the same seeds."""
    lasting, points = optuna.create_study(direction="maximize"), list[Point]()
    for number in range(1, count + 1):
        lasting.sampler = sampling.sampler_of(study.sampler, sampling._seed(f"{study.seed}/{number}/0"))
        asked, values = lasting.ask(), dict[str, Any]()
        for path, parameter in in_order(study.parameters).items():
            if is_active(parameter, values):
                values[path] = sampling._suggest(asked, path, parameter)
        lasting.tell(asked, score(values))
        points.append(values)
    return points


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_rebuilt_study_draws_the_points_of_a_lasting_one(sampler: str) -> None:
    study = study_of(sampler=sampler)
    assert [row.values for row in search(study, 40)] == search_with_optuna(study, 40)


def test_the_state_of_cma_es_is_in_the_rows() -> None:
    study = study_of(sampler="cmaes")
    kept, forgotten = ([row.values for row in search(study, 30, keeps=keeps)] for keeps in (True, False))
    assert kept != forgotten


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_rows_and_seed_give_the_same_point(sampler: str) -> None:
    study = study_of(sampler=sampler)
    rows = search(study, 12)
    assert Sampling(study, rows).draw(13) == Sampling(study, rows).draw(13)
    assert Sampling(study, rows).draw(13) != Sampling(replace(study, seed=2), rows).draw(13)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_value_is_one_that_the_study_allows(sampler: str) -> None:
    study = study_of(sampler=sampler)
    for row in search(study, 30):
        assert all(study.parameters[path].allows(value) for path, value in row.values.items())
        assert ("args.momentum" in row.values) == (row.values["args.optimizer"] == "sgd")


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_no_two_trials_are_equal_until_every_combination_was_tried(sampler: str) -> None:
    small = study_of({"args.a": {"integers": [1, 4]}, "args.b": {"choice": ["x", "y"]}}, sampler=sampler)
    rows = list[TrialRow]()
    while drawn := Sampling(small, rows).draw(len(rows) + 1):
        rows.append(trial(len(rows) + 1, TrialState.COMPLETE, values=drawn.values))
    assert len(rows) == len({tuple(row.values.items()) for row in rows}) == 8


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_draws_of_one_turn_differ(sampler: str) -> None:
    study = study_of(sampler=sampler)
    draws = Sampling(study, search(study, 12))
    points = [draws.draw(number) for number in range(13, 21)]
    assert len({tuple(each.values.items()) for each in points if each}) == 8


def test_values_that_a_user_chose_are_kept_and_the_others_drawn() -> None:
    drawn = Sampling(study_of(), []).draw(1, {"args.lr": 0.03})
    assert drawn
    assert drawn.values["args.lr"] == 0.03
    assert "args.units" in drawn.values


def test_a_point_that_a_user_chose_may_repeat_one() -> None:
    study = study_of({"args.a": {"choice": [1, 2]}})
    rows = [trial(1, TrialState.COMPLETE, values={"args.a": 1})]
    drawn = Sampling(study, rows).draw(2, {"args.a": 1})
    assert drawn
    assert drawn.values == {"args.a": 1}


TOLD: list[tuple[str, Callable[[int], TrialRow]]] = [
    ("a failed trial", lambda number: trial(number, TrialState.FAILED, values={"args.a": 0.9})),
    (
        "a stopped trial",
        lambda number: trial(number, TrialState.STOPPED, values={"args.a": 0.9}, value=0.1, step=3),
    ),
]


@pytest.mark.parametrize(("sentence", "bad"), TOLD, ids=[sentence for sentence, _ in TOLD])
@pytest.mark.parametrize("sampler", ["tpe", "cmaes"])
def test_the_sampler_learns_from_bad_trials(
    sentence: str, bad: Callable[[int], TrialRow], sampler: str
) -> None:
    """Trials above 0.5 fail. Without them, the sampler has no reason to stay below."""
    study = study_of({"args.a": {"range": [0, 1]}, "args.b": {"range": [0, 1]}}, sampler=sampler)
    rows = list[TrialRow]()
    for number in range(1, 61):
        drawn = Sampling(study, rows).draw(number)
        assert drawn
        good = drawn.values["args.a"] <= 0.5  # type: ignore[operator]
        row = trial(number, TrialState.COMPLETE, value=0.5) if good else bad(number)
        rows.append(replace(row, values=drawn.values, attributes=drawn.attributes))
    late = [row.state is TrialState.COMPLETE for row in rows[30:]]
    assert sum(late) >= 20


def test_a_stopped_trial_is_worse_than_a_complete_one_and_better_with_more_steps() -> None:
    study = study_of({"args.a": {"range": [0, 1]}})
    rows = [
        trial(1, TrialState.STOPPED, values={"args.a": 0.1}, value=0.9, step=4),
        trial(2, TrialState.STOPPED, values={"args.a": 0.2}, value=0.1, step=12),
        trial(3, TrialState.FAILED, values={"args.a": 0.3}),
    ]
    told = [sampling.frozen(study, row, None) for row in rows]
    assert [each.intermediate_values for each in told] == [{4: 0.9}, {12: 0.1}, {}]
    assert {each.state for each in told} == {optuna.trial.TrialState.PRUNED}
