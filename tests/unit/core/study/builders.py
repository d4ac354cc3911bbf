"""Studies, rows and results for tests."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from lambdas.core.study.results import Result
from lambdas.core.study.sampling import Sampling
from lambdas.core.study.situation import Sampler, Situation
from tests.support.job_files import SMALLEST
from trainyard.core.jobfile import check
from trainyard.core.model.job import Job
from trainyard.core.model.study import Study
from trainyard.protocol.ledger.study import DrawnBy, StudyRow, TrialRow, TrialState

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SPACE: dict[str, Any] = {
    "args.lr": {"log": [1e-5, 0.1]},
    "args.units": {"integers": [16, 256], "step": 16},
    "args.optimizer": {"choice": ["sgd", "adam"]},
    "args.momentum": {"range": [0, 0.99], "when": {"args.optimizer": ["sgd"]}},
}


def study_of(parameters: Mapping[str, Any] = SPACE, **section: Any) -> Study:
    study = {"maximize": "accuracy", "parameters": parameters, "limits": {"dollars": 30}} | section
    job = check.check(SMALLEST | {"study": study}, source="x.yaml", bucket="bucket")
    assert isinstance(job, Job), job.reason
    assert job.study
    return job.study


def trial(number: int, state: TrialState = TrialState.STARTED, **values: Any) -> TrialRow:
    ended = {} if state.is_open else {"reported": NOW + timedelta(seconds=number), "dollars": 1.0}
    known: dict[str, Any] = {"values": {"args.lr": number / 10_000}, "drawn_by": DrawnBy.SAMPLER, "cap": 2.0}
    if state is TrialState.COMPLETE:
        known["value"] = number / 100
    return TrialRow(number=number, state=state, asked=NOW, **(known | ended | values))


def situation(study: Study, trials: Sequence[TrialRow] = (), **values: Any) -> Situation:
    row = StudyRow(version=1, trials=10, dollars=30.0, until=NOW + timedelta(hours=1))
    known: dict[str, Any] = {
        "most_dollars": 20.0,
        "row": row,
        "points": (),
        "results": {},
        "is_metric_seen": True,
        "reserve": 0.0,
        "stopped_by": None,
        "now": NOW,
    }
    return Situation(study=study, trials=trials, **(known | values))


def result(state: TrialState = TrialState.COMPLETE, **values: Any) -> Result:
    known: dict[str, Any] = {"reason": "it ended", "dollars": 1.0}
    if state is TrialState.COMPLETE:
        known["value"] = 0.5
    return Result(state=state, **(known | values))


def start_sampler(study: Study, trials: Sequence[TrialRow]) -> Sampler:
    return Sampling(study, trials).draw
