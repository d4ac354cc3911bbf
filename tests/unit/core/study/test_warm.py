"""Trials of earlier studies: which values a new study takes, and the sentence about the others."""
# ruff: noqa: E501 - one line a row

from typing import Any

import pytest

from lambdas.core.study import warm
from lambdas.core.study.sampling import Sampling
from tests.unit.core.study.builders import SPACE, study_of, trial
from trainyard.core.model.study import Study
from trainyard.protocol.ledger.study import DrawnBy, TrialRow, TrialState

NAME = "digits-0a1b2c3d"
LR = {"args.lr": 0.01}
COMPLETE, FAILED = TrialState.COMPLETE, TrialState.FAILED


def done(**values: Any) -> TrialRow:
    return trial(1, COMPLETE, **values)


TAKEN = [
    # sentence, the earlier study, its trial, the values that the new one takes, the report
    ("all of the same study", study_of(), done(values=LR), [LR], None),
    ("a failed trial, too", study_of(), trial(1, FAILED, values=LR), [LR], None),
    ("no trial that runs", study_of(), trial(1, values=LR), [], None),
    ("no trial that retrained", study_of(), done(values=LR, drawn_by=DrawnBy.RETRAIN), [], None),
    (
        "no value outside the range",
        study_of(),
        done(values=LR | {"args.units": 512}),
        [LR],
        "the sampler uses 1 of 1 trial of digits-0a1b2c3d; left out: args.units of 1 trial (outside this study's values)",
    ),
    (
        "no parameter that the study lacks",
        study_of(SPACE | {"args.old": {"range": [0, 1]}}),
        done(values=LR | {"args.old": 0.5}),
        [LR],
        "left out: args.old of 1 trial (no parameter of this study)",
    ),
    (
        "no trial without a value that fits",
        study_of({"args.old": {"range": [0, 1]}}),
        done(values={"args.old": 0.5}),
        [],
        "the sampler uses 0 of 1 trial of digits-0a1b2c3d",
    ),
    (
        "a parameter that is new",
        study_of({"args.lr": {"log": [1e-5, 0.1]}}),
        done(values=LR),
        [LR],
        "no trial has args.momentum; no trial has args.optimizer; no trial has args.units",
    ),
    (
        "no value whose condition does not hold",
        study_of(),
        done(values=LR | {"args.optimizer": "adam", "args.momentum": 0.5}),
        [LR | {"args.optimizer": "adam"}],
        "args.momentum of 1 trial",
    ),
    (
        "another metric of the same direction",
        study_of(maximize="val_accuracy"),
        done(values=LR),
        [LR],
        "its val_accuracy counts as accuracy",
    ),
]


@pytest.mark.parametrize(
    ("sentence", "earlier", "row", "values", "report"), TAKEN, ids=[each[0] for each in TAKEN]
)
def test_a_study_takes_what_fits_and_reports_the_rest(
    sentence: str, earlier: Study, row: TrialRow, values: list[dict[str, Any]], report: str | None
) -> None:
    taken = warm.take(study_of(), NAME, earlier, [row])
    assert [each.values for each in taken.trials] == values
    assert (taken.report is None) == (report is None)
    assert report is None or report in str(taken.report)


@pytest.mark.parametrize(
    ("earlier", "fault"),
    [
        (study_of(), None),
        (None, "digits-0a1b2c3d is not a study of this yard"),
        (
            study_of(maximize=None, minimize="loss"),
            "digits-0a1b2c3d searches the other direction: it would minimize loss, and this study would maximize accuracy",
        ),
    ],
    ids=["the same direction", "unknown", "the other direction"],
)
def test_an_unknown_study_and_the_other_direction_are_refused(
    earlier: Study | None, fault: str | None
) -> None:
    assert warm.find_fault(study_of(), NAME, earlier) == fault


@pytest.mark.parametrize("sampler", ["tpe", "cmaes"])
def test_earlier_trials_lead_the_sampler(sampler: str) -> None:
    """Earlier trials were good at 0.9 only. Their values draw the first trials there."""
    study = study_of({"args.a": {"range": [0, 1]}, "args.b": {"range": [0, 1]}}, sampler=sampler)
    earlier = [
        trial(number, COMPLETE, value=-abs(number / 50 - 0.9), values={"args.a": number / 50, "args.b": 0.9})
        for number in range(1, 50)
    ]
    cold, led = (
        [Sampling(study, [], rows).draw(number) for number in range(1, 11)] for rows in ((), earlier)
    )
    near = [sum(abs(each.values["args.a"] - 0.9) < 0.2 for each in draws if each) for draws in (cold, led)]  # type: ignore[operator]
    assert near[1] > near[0] + 3


def test_no_trial_repeats_one_of_an_earlier_study() -> None:
    study = study_of({"args.a": {"choice": [1, 2]}}, sampler="random")
    drawn = Sampling(study, [], [trial(1, COMPLETE, values={"args.a": 1})]).draw(1)
    assert drawn
    assert drawn.values == {"args.a": 2}
