"""A study from its admission to its end: what its functions write, start and answer, with one turn at a time."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from lambdas import environment
from lambdas.aws.dynamodb.rows import open_row, run_row
from lambdas.aws.dynamodb.studies import Studies
from lambdas.aws.dynamodb.write import Write
from lambdas.core.run import RunUpdate
from lambdas.workflows.study import keep, turn
from tests.support.recorded import CONTEXT
from tests.unit.workflows.account import an_account
from tests.unit.workflows.studies import JOB, STARTED, STUDY, Yard, begin, read_object
from trainyard.core.jobfile import check
from trainyard.core.model.job import Job
from trainyard.protocol.ledger.study import TrialState
from trainyard.protocol.objective import Point
from trainyard.values import serialization
from trainyard.values.serialization import Measure


@pytest.fixture
def yard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    with an_account(monkeypatch):
        yield begin(monkeypatch)


def test_the_first_trial_runs_until_it_has_reported_the_metric(yard: Yard) -> None:
    assert yard.admit()["kind"] == "admitted"
    yard.turn()
    assert [*yard.begun()] == [f"{STUDY}-0001-trial"]
    yard.run(1)
    yard.turn()
    assert len(yard.begun()) == 1
    yard.run(1, objective=Point(step=10, epoch=1, value=Measure(0.5)))
    yard.turn()
    assert len(yard.begun()) == 2


def test_a_trial_is_the_job_with_its_values_its_cap_and_the_name_of_its_study(yard: Yard) -> None:
    yard.admit()
    yard.turn()
    (given,) = yard.begun().values()
    assert given["trial"] == {"study": STUDY, "number": 1, "submitter": "unknown"}
    assert given["job"]["objective"] == {"metric": "accuracy", "goal": "maximize"}
    assert 1e-5 <= given["job"]["program"]["args"]["lr"] <= 0.1
    assert given["job"]["program"]["args"]["epochs"] == 5
    assert given["job"]["limits"]["dollars"] == 2
    assert "study" not in given["job"]


def test_a_turn_again_starts_nothing_twice(yard: Yard) -> None:
    yard.admit()
    for _ in range(3):
        yard.turn()
    assert len(yard.begun()) == 1
    assert yard.trials() == {1: TrialState.STARTED}


def test_a_trial_that_was_asked_and_not_started_is_started_by_the_next_turn(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.admit()
    with monkeypatch.context() as broken:
        broken.setattr(turn, "_start", lambda *_: None)  # the function ends between its write and the start
        yard.turn()
    assert (yard.trials(), yard.begun()) == ({1: TrialState.ASKED}, {})
    yard.turn()
    assert (yard.trials(), len(yard.begun())) == ({1: TrialState.STARTED}, 1)


def test_results_are_reported_and_the_best_one_wins(yard: Yard) -> None:
    yard.admit()
    yard.turn()
    yard.end(1, metrics={"accuracy": 0.5})
    yard.end(2, metrics={"accuracy": 0.9})
    yard.end(3, outcome="failed", error="ProgramFailed")
    yard.end(4, metrics={"loss": 1.0})
    states = yard.trials()
    assert states == {
        1: TrialState.COMPLETE,
        2: TrialState.COMPLETE,
        3: TrialState.FAILED,
        4: TrialState.FAILED,
    }
    row = yard.ledger.run(STUDY)
    assert row
    assert row.search
    assert (row.search.best, row.search.value, row.search.reported, row.search.dollars) == (2, 0.9, 4, 2.0)
    found = Studies("ledger").read(STUDY)
    assert found
    assert found.trials[3].reason == "metrics.json has no accuracy; it has loss"


def test_a_stopped_study_stops_its_trials_and_then_ends(yard: Yard) -> None:
    yard.admit()
    yard.search()
    yard.end(1, metrics={"accuracy": 0.5})
    yard.ledger.write(run_row(STUDY, {"stopping": STARTED, "stopped_by": "ada"}))
    yard.run(2)
    yard.turn()
    stops = [event["detail"]["run"] for name, event in yard.invoked if name == "trainyard-signal"]
    assert stops == [f"{STUDY}-0002-trial", f"{STUDY}-0003-trial"]
    for number in (2, 3):
        yard.end(number, outcome="stopped", error="Stopped", stopped_by="the study")
    assert yard.trials() == {1: TrialState.COMPLETE, 2: TrialState.CUT, 3: TrialState.CUT}
    ((_, trouble),) = yard.answers
    assert trouble.error == "Stopped"
    assert trouble.reason == (
        "ada has stopped the study: 1 trial for $1.50; the best is trial 1 with accuracy 0.5"
    )


def test_a_study_above_the_limits_of_the_yard_is_refused(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"yard": "trainyard", "table_name": "ledger", "bucket_name": "bucket"}
    limits = {"aws_region": "us-east-1", "monthly_dollars": 0.0, "most_runs": 1, "most_dollars_per_run": 2.0}
    monkeypatch.setattr(environment, "read", lambda kind: kind(**given, **limits))
    answer = yard.admit(warm=["nothing-00000000"])
    assert answer["kind"] == "refused"
    assert "study.warm[0]: nothing-00000000 is not a study of this yard" in answer["reason"]
    yard.turn()
    assert (yard.begun(), Studies("ledger").read(STUDY)) == ({}, None)
    assert "study.parallel: found 2; this yard runs 1 at once (most_runs)" in answer["reason"]
    assert (
        "study.limits.dollars: found 10; this yard allows $2 a run, which is $8 for 4 trials"
        in answer["reason"]
    )


def test_a_study_with_faults_launches_nothing_and_names_all_of_them(yard: Yard) -> None:
    parameters = {"args.lr": {"range": [1, 0]}, "args.kind": {"choice": ["a", "a"]}}
    answer = yard.admit(parameters=parameters, trials=0, pruner="asha", limits={"dollars": 1})
    assert answer["kind"] == "refused"
    paths = (
        "parameters.args.lr.range",
        "parameters.args.kind.choice[1]",
        "trials",
        "pruner",
        "limits.dollars",
    )
    assert all(f"- study.{path}: " in answer["reason"] for path in paths)
    yard.turn()
    assert (yard.begun(), Studies("ledger").read(STUDY)) == ({}, None)


def test_the_end_answers_the_state_that_waits_once(yard: Yard) -> None:
    yard.admit(trials=1, parallel=1)
    yard.search()
    yard.end(1, metrics={"accuracy": 0.5})
    yard.turn()
    ((token, answer),) = yard.answers
    assert (token, answer["kind"]) == ("token", "finished")
    assert "the best is trial 1 with accuracy 0.5" in answer["reason"]


def warm_host(run: str, **values: Any) -> dict[str, Any]:
    """Return the row of a host that waits for the next trial."""
    known = {
        "run": run,
        "study": STUDY,
        "type": "g6.xlarge",
        "zone": "us-east-1a",
        "market": "spot",
        "image": "ami-1",
        "price": 0.3,
        "disk_gib": 45,
        "gib_month": 0.08,
        "since": STARTED,
        "until": STARTED,
        "minutes": 3.0,
    }
    return known | values


def test_warm_hosts_end_with_their_study(yard: Yard) -> None:
    yard.admit(trials=1, parallel=1)
    yard.search()
    run = yard.run(1)
    yard.ledger.write(
        Write("pool", "i-of-the-study", warm_host(run)),
        Write("pool", "i-of-another", warm_host("other-0a1b2c3d-0001-trial", study="other-0a1b2c3d")),
    )
    yard.end(1, metrics={"accuracy": 0.5})
    (event,) = (event for name, event in yard.invoked if name == "trainyard-signal")
    assert (event["detail-type"], event["detail"]["run"]) == ("study", run)


def test_the_end_is_in_a_summary_and_a_list_of_trials(yard: Yard) -> None:
    yard.admit(trials=1, parallel=1)
    yard.turn()
    yard.end(1, metrics={"accuracy": 0.5})
    assert yard.conclude()["outcome"] == "succeeded"
    summary = read_object(f"runs/{STUDY}/summary.json")
    assert (summary["best"], summary["value"], summary["trials"]) == (f"{STUDY}-0001-trial", 0.5, 1)
    (trial,) = read_object(f"runs/{STUDY}/trials.json")["trials"]
    assert (trial["state"], trial["value"], trial["dollars"]) == ("complete", 0.5, 0.5)
    yard.turn()
    assert len(yard.begun()) == 1, "an ended study starts nothing"


def test_the_end_deletes_the_files_of_all_trials_but_the_best_one_and_what_an_open_run_resumes(
    yard: Yard,
) -> None:
    yard.admit(trials=3, parallel=1, pruner="none")
    yard.turn()
    for number, value in ((1, 0.5), (2, 0.9), (3, 0.7)):
        yard.end(number, metrics={"accuracy": value})
    job = JOB | {"checkpoints": {"resume": f"{STUDY}-0003-trial"}}
    admitted = check.check(job, source="x.yaml", bucket="bucket")
    assert isinstance(admitted, Job)
    values: RunUpdate = {
        "kind": "train",
        "job": serialization.to_json(admitted),
        "state": "Train",
        "attempt": 1,
    }
    run = run_row("digits-99999999", {**values, "created": STARTED, "execution_arn": "arn"})
    yard.ledger.write(run, open_row("digits-99999999", "train", "arn"))
    files = ("model/saved_model.pb", "checkpoints/latest.json", "metrics.json", "outputs/notes.txt")
    for number in (1, 2, 3):
        for name in files:
            boto3.client("s3").put_object(
                Bucket="bucket", Key=f"runs/{STUDY}-{number:04}-trial/{name}", Body=b"{}"
            )
    keep.handler({"run": STUDY}, CONTEXT)
    assert {name for name in files if has_object(1, name)} == {"metrics.json", "outputs/notes.txt"}
    assert {name for name in files if has_object(2, name)} == {*files}
    assert {name for name in files if has_object(3, name)} == {*files} - {"model/saved_model.pb"}
    (kept,) = [each.reason for each in yard.ledger.timeline(STUDY) if each.event == "kept"]
    assert kept == "3 files of models and checkpoints deleted; trials that kept their files (study.keep): 2"


def has_object(number: int, name: str) -> bool:
    listed = boto3.client("s3").list_objects_v2(
        Bucket="bucket", Prefix=f"runs/{STUDY}-{number:04}-trial/{name}"
    )
    return bool(listed["KeyCount"])


DEAR = {"pool": "p", "market": "spot", "gang": 1, "price": 36.0}


@pytest.mark.parametrize(("waits", "follows"), [(False, True), (True, False)])
def test_only_a_host_that_waits_reserves_dollars(waits: bool, follows: bool, yard: Yard) -> None:
    """The hosts of all ended trials would reserve more than is left, but the next trials have taken most of them."""
    yard.admit(trials=9, parallel=1, pruner="none", limits={"dollars": 3.6})
    yard.turn()
    yard.end(1, metrics={"accuracy": 0.5}, last_launch=DEAR)
    assert yard.trials()[2] is TrialState.STARTED
    if waits:
        yard.ledger.write(Write("pool", "i-1", warm_host(yard.run(2), price=60.0)))
    yard.end(2, metrics={"accuracy": 0.5}, last_launch=DEAR)
    assert (3 in yard.trials()) is follows
