"""The class Study, and the table of its trials: what a program of a user reads, and which requests are sent."""

import csv
import json
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.job_files import SMALLEST
from tests.unit.core.builders import BUCKET
from tests.unit.ui import canned
from tests.unit.ui.canned_study import BEST, BROKEN, ENDED, METRIC, RUNNING, SECTION, SLOW, STUDY, TRIALS
from trainyard.client import Study, YardError, study_export
from trainyard.client import study as client_study
from trainyard.client.errors import (
    Denied,
    FileUnreadable,
    NothingFound,
    RequestNotAccepted,
    RunGoesOn,
    RunNotFound,
    StudyRefused,
)
from trainyard.core.jobfile import check
from trainyard.core.model.job import Job
from trainyard.protocol.ledger.study import TrialState
from trainyard.values import serialization

PART = f"{STUDY}-part-0002"
NOON = "2026-11-29T12:00:00.000Z"


@pytest.fixture
def cloud() -> canned.Cloud:
    """A study of ada that runs, with its whole job."""
    made = canned.cloud()
    section = json.loads(json.dumps(SECTION, default=lambda n: int(n) if n % 1 == 0 else float(n)))
    job = check.check(SMALLEST | {"limits": {"dollars": 1}, "study": section}, source="x.yaml", bucket=BUCKET)
    assert isinstance(job, Job)
    arn = f"{canned.EXECUTION.replace('-train', '-study')}:{STUDY}"
    made.stories[STUDY].row |= {"submitter": "ada", "job": serialization.to_json(job), "execution_arn": arn}
    return made


@pytest.fixture
def study(cloud: canned.Cloud) -> Study:
    return cloud.yard().study(STUDY)


def answer(monkeypatch: pytest.MonkeyPatch, react: Callable[[str, dict[str, Any]], None]) -> None:
    """Let the yard react to each request."""
    send = canned.Events.put_events

    def put_events(self: canned.Events, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803 - boto3's name
        sent = send(self, Entries)
        react(*self.cloud.told[-1])
        return sent

    monkeypatch.setattr(canned.Events, "put_events", put_events)


def end(cloud: canned.Cloud) -> None:
    """End the study and its running trials."""
    story = cloud.stories[STUDY]
    story.status = "SUCCEEDED"
    story.row |= {"ended": NOON, "outcome": "succeeded"}
    for row in story.trials:
        if row.get("state") == "started":
            row |= {
                "state": "complete",
                "reported": NOON,
                "value": Decimal("0.5"),
                "dollars": Decimal("0.01"),
            }


def test_a_study_has_its_trials_its_metric_and_its_best_trial(study: Study) -> None:
    trials = study.trials
    assert [trial.number for trial in trials] == [*range(1, ENDED + RUNNING + 1)]
    assert study.metric == METRIC
    best = study.best()
    assert (best.number, best.value, best.run.id) == (BEST, 0.9755, f"{STUDY}-{BEST:04}-trial")
    assert best.values["args.optimizer"] in ("sgd", "adam")
    states = {trial.number: trial.state for trial in trials}
    assert (states[SLOW], states[BROKEN], states[ENDED + 1]) == (
        TrialState.STOPPED,
        TrialState.FAILED,
        TrialState.STARTED,
    )
    assert study.retrained is None


def test_a_run_without_trials_is_no_study(cloud: canned.Cloud) -> None:
    with pytest.raises(RunNotFound) as refused:
        cloud.yard().study(canned.TRAINING)
    assert f"{canned.TRAINING} is a train run" in refused.value.what
    with pytest.raises(RunNotFound):
        cloud.yard().study("nothing-00000000")


def test_before_the_first_complete_trial_there_is_no_best_one(cloud: canned.Cloud, study: Study) -> None:
    cloud.stories[STUDY].trials[0]["best"] = None
    with pytest.raises(NothingFound) as refused:
        study.best()
    assert refused.value.what == f"{STUDY} has no complete trial"


def test_the_trial_that_trained_the_best_values_again_is_named(cloud: canned.Cloud, study: Study) -> None:
    cloud.stories[STUDY].trials[0]["retrained"] = Decimal(3)
    assert study.retrained
    assert study.retrained.number == 3


def test_ended_trials_are_yielded_once_each_until_the_study_is_over(
    cloud: canned.Cloud, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study ends while the caller waits for its last trials."""
    monkeypatch.setattr(time, "sleep", lambda _: end(cloud))
    numbers = [trial.number for trial in study.ended()]
    assert numbers == [*range(1, ENDED + RUNNING + 1)]


def test_a_point_is_sent_and_returned_once_the_study_has_it(
    cloud: canned.Cloud, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(_: str, request: dict[str, Any]) -> None:
        row = {"pk": f"study#{STUDY}", "sk": f"study-point#{request['point']}", "by": "ada", "added": NOON}
        cloud.stories[STUDY].trials.append(row | {"values": {"args.lr": Decimal("0.02")}})

    answer(monkeypatch, take)
    point = study.add({"args.lr": 0.02})
    assert cloud.told == [("add", {"run": STUDY, "point": point, "values": {"args.lr": 0.02}})]


def test_a_point_that_the_study_never_takes_is_reported(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_study, "NOTED_SECONDS", 0.0)
    with pytest.raises(RequestNotAccepted):
        study.add({"args.lr": 0.02})


OVER = {"ended": NOON}
STOPPING = {"stopping": NOON, "stopped_by": "ada"}
POINTS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = [
    # changes of the run, changes of the counters, point, message
    ({}, {}, {}, "the point has no values"),
    ({}, {}, {"args.lrr": 1}, 'args.lrr: is not a parameter of this study'),
    ({}, {}, {"args.lr": 7}, "args.lr: found the number 7; a number from 1e-05 to 0.1 is allowed"),
    ({}, {}, {"args.momentum": 0.5, "args.optimizer": "adam"}, "has no effect in this point"),
    (OVER, {}, {"args.lr": 0.02}, "is over, or a user has stopped it"),
    (STOPPING, {}, {"args.lr": 0.02}, "is over, or a user has stopped it"),
    ({}, {"trials": Decimal(ENDED + RUNNING)}, {"args.lr": 0.02}, "all of its 22 trials are taken"),
]  # fmt: skip


@pytest.mark.parametrize(("run", "counters", "point", "message"), POINTS, ids=[each[3] for each in POINTS])
def test_a_point_that_cannot_be_taken_is_refused_before_it_is_sent(
    run: dict[str, Any],
    counters: dict[str, Any],
    point: dict[str, Any],
    message: str,
    cloud: canned.Cloud,
    study: Study,
) -> None:
    cloud.stories[STUDY].row |= run
    cloud.stories[STUDY].trials[0] |= counters
    with pytest.raises(StudyRefused) as refused:
        study.add(point)
    assert message in refused.value.what
    assert cloud.told == []


def test_a_study_that_has_ended_continues_as_the_same_run(
    cloud: canned.Cloud, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    end(cloud)

    def open_again(_: str, request: dict[str, Any]) -> None:
        story = cloud.stories[STUDY]
        arn = f"{study.arn.rpartition(':')[0]}:{STUDY}-part-{request['part']:04}"
        cloud.stories[PART] = canned.Story(row=story.row)
        story.row |= {"execution_arn": arn, "ended": None}

    answer(monkeypatch, open_again)
    continued = study.more(trials=4, dollars=2)
    assert continued.arn.endswith(PART)
    assert continued.id == STUDY
    assert len(continued.trials) == ENDED + RUNNING
    request = {"run": STUDY, "part": 2, "trials": 4, "dollars": 2, "hours": None}
    assert cloud.told == [("more", request)]


def test_a_study_that_runs_is_not_continued(cloud: canned.Cloud, study: Study) -> None:
    with pytest.raises(RunGoesOn):
        study.more(trials=4, dollars=2)
    assert cloud.told == []


def test_every_fault_of_a_continuation_is_reported_at_once(cloud: canned.Cloud, study: Study) -> None:
    end(cloud)
    with pytest.raises(StudyRefused) as refused:
        study.more(trials=1000, dollars=0, hours=-1)
    assert [
        word in refused.value.what for word in ("trials: found 1000", "dollars: found", "hours: found")
    ] == [True] * 3
    assert cloud.told == []


def test_only_its_owner_and_operators_continue_a_study(
    cloud: canned.Cloud, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.stories[STUDY].row["submitter"] = "grace"
    end(cloud)

    def refuse(*_: object, **__: object) -> None:
        raise Denied("events:PutEvents was denied", "no policy allows it", "trainyard yard grant role/x user")

    monkeypatch.setattr(canned.Events, "put_events", refuse)
    with pytest.raises(Denied) as refused:
        study.more(trials=1, dollars=1)
    assert refused.value.what == f"{STUDY} belongs to grace, and you are ada"


def test_the_table_has_a_row_for_each_trial_and_a_column_for_each_parameter(
    study: Study, tmp_path: Path
) -> None:
    file = tmp_path / "tune.csv"
    assert study_export.write_csv(study, file) == ENDED + RUNNING
    with file.open(newline="", encoding="utf-8") as opened:
        rows = {int(row["trial"]): row for row in csv.DictReader(opened)}
    parameters = ["args.lr", "args.momentum", "args.optimizer", "args.units"]
    assert [*rows[1]] == [*study_export.COLUMNS, *parameters]
    assert (rows[BEST]["state"], float(rows[BEST]["value"])) == ("complete", 0.9755)
    assert (rows[SLOW]["state"], rows[SLOW]["step"]) == ("stopped", "4")
    assert rows[BROKEN]["reason"] == "ValueError: lr is too high"
    assert (rows[TRIALS - 2]["state"], rows[TRIALS - 2]["value"], rows[TRIALS - 2]["dollars"]) == (
        "started",
        "",
        "",
    )
    assert (rows[1]["args.momentum"], rows[2]["args.momentum"]) == ("", "0.9")
    assert rows[3]["run"] == f"{STUDY}-0003-trial"


def test_a_reason_with_commas_quotes_and_lines_stays_one_cell(
    cloud: canned.Cloud, study: Study, tmp_path: Path
) -> None:
    reason = 'ValueError: "lr", too high\nsecond line'
    cloud.stories[STUDY].trials[BROKEN]["reason"] = reason
    study_export.write_csv(study, tmp_path / "tune.csv")
    with (tmp_path / "tune.csv").open(newline="", encoding="utf-8") as opened:
        assert [*csv.DictReader(opened)][BROKEN - 1]["reason"] == reason


@pytest.mark.parametrize("write", [study_export.write_csv, study_export.write_optuna])
def test_an_export_never_overwrites_a_file(
    write: Callable[[Study, Path], int], study: Study, tmp_path: Path
) -> None:
    file = tmp_path / "mine"
    file.write_text("mine")
    with pytest.raises(FileUnreadable) as refused:
        write(study, file)
    assert (refused.value.what, file.read_text()) == (f"{file} exists already", "mine")


def test_a_folder_that_does_not_exist_is_an_error_with_a_next_step(study: Study, tmp_path: Path) -> None:
    with pytest.raises(YardError):
        study_export.write_csv(study, tmp_path / "missing" / "tune.csv")
