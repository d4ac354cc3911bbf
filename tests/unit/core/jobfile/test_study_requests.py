"""Requests of users to a study: each fault of a point and of a continuation is named with its value."""
# ruff: noqa: E501 - one line a row

from typing import Any

import pytest

from tests.unit.core.study.builders import NOW, study_of
from trainyard.core.jobfile import study_requests
from trainyard.protocol.ledger.study import StudyRow

ROW = StudyRow(version=1, trials=20, dollars=10.0, until=NOW, reported=10, running=4)
CONTINUATION: dict[str, Any] = {"trials": 5, "dollars": 2.0, "hours": None}


@pytest.mark.parametrize(
    ("values", "faults"),
    [
        ({"args.lr": 0.01}, []),
        ({"args.momentum": 0.5, "args.optimizer": "sgd"}, []),
        ({}, ["the point has no values; give at least one, as in args.lr=0.01"]),
        ({"args.lr": 2, "args.units": 17}, ["args.lr: found the number 2; a number from 1e-05 to 0.1 is allowed", "args.units: found the number 17; a number from 16 to 256 in steps of 16 is allowed"]),
        ({"args.lrr": 1}, ["args.lrr: is not a parameter of this study; those are args.lr, args.units, args.optimizer, args.momentum; did you mean \"args.lr\"?"]),
        ({"args.momentum": 0.5}, ["args.momentum: has no effect in this point, which needs args.optimizer sgd"]),
        ({"args.optimizer": "adamw"}, ["args.optimizer: found \"adamw\"; sgd or adam is allowed"]),
    ],
    ids=str,
)  # fmt: skip
def test_each_fault_of_a_point_is_named(values: dict[str, Any], faults: list[str]) -> None:
    assert study_requests.find_point_faults(study_of(), values) == faults


def test_a_value_of_another_kind_is_a_fault() -> None:
    (fault,) = study_requests.find_point_faults(study_of(), {"args.lr": {"range": [0, 1]}})
    assert fault.startswith("args.lr: found a mapping")


@pytest.mark.parametrize(
    ("waiting", "refused"),
    [
        (0, None),
        (5, None),
        (6, "all of its 20 trials are taken: 10 ended, 4 running, 6 added"),
    ],
)
def test_a_study_takes_points_for_its_free_trials(waiting: int, refused: str | None) -> None:
    assert study_requests.refuse_point(ROW, waiting) == refused


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({}, None),
        ({"trials": 986}, None),
        ({"trials": 987}, "trials: found 987; a study has at most 1000 trials, and this one has 14"),
        ({"trials": 0}, "trials: found 0"),
        ({"dollars": 0.0}, "dollars: found the number 0.0; at least 0.01 is required"),
        ({"dollars": float("nan")}, "dollars: found the number nan"),
        ({"hours": 0.0}, "hours: found the number 0.0; a number above 0, at most 720, is allowed"),
        ({"hours": 721.0}, "hours: found the number 721.0"),
    ],
    ids=str,
)
def test_each_fault_of_a_continuation_is_named(given: dict[str, Any], part: str | None) -> None:
    faults = study_requests.find_continuation_faults(ROW, 14, **CONTINUATION | given)
    assert bool(faults) is (part is not None)
    assert part is None or part in faults[0]


def test_all_faults_of_a_continuation_are_named_together() -> None:
    faults = study_requests.find_continuation_faults(ROW, 14, trials=0, dollars=0.0, hours=0.0)
    assert len(faults) == 3
