"""A study from its admission to its end: what its functions write, start and answer, with one turn at a time."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from moto import mock_aws

from lambdas import environment
from lambdas.aws import clients, messages, states
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import run_row
from lambdas.aws.dynamodb.studies import Studies
from lambdas.aws.dynamodb.write import Write
from lambdas.steps.job_check import JobSettings
from lambdas.workflows.study import admit, conclude, turn
from lambdas.workflows.study.conclude import ConcludeSettings
from lambdas.workflows.study.turn import TurnSettings
from tests.support.recorded import CONTEXT
from trainyard.protocol.ledger.study import TrialState
from trainyard.protocol.objective import Point
from trainyard.values.serialization import Measure

STUDY = "digits-0a1b2c3d"
STARTED = datetime(2026, 11, 20, 12, tzinfo=UTC)
SECTION: dict[str, Any] = {
    "maximize": "accuracy",
    "parameters": {"args.lr": {"log": [1e-5, 0.1]}},
    "trials": 4,
    "parallel": 2,
    "limits": {"dollars": 10},
}
JOB: dict[str, Any] = {
    "name": "digits",
    "program": {"module": "training.programs.digits", "args": {"epochs": 5}},
    "limits": {"hours": 1, "dollars": 2},
}


def read_object(key: str) -> Any:
    return json.loads(boto3.client("s3").get_object(Bucket="bucket", Key=key)["Body"].read())


class Yard:
    """A yard with one study, whose trials end as the test says."""

    def __init__(self) -> None:
        self.states, self.ledger = boto3.client("stepfunctions"), Ledger("ledger")
        self.invoked: list[tuple[str, dict[str, Any]]] = []
        self.answers: list[tuple[str, Any]] = []
        """The answers of task tokens."""
        made = self.states.create_state_machine(
            name=f"trainyard-train-{id(self)}",
            definition=json.dumps({"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}),
            roleArn="arn:aws:iam::123456789012:role/any",
        )
        self.machine = str(made["stateMachineArn"])

    def admit(self, **section: Any) -> dict[str, Any]:
        event = {
            "run": STUDY,
            "execution": f"arn:{STUDY}",
            "started": "2026-11-20T12:00:00.000Z",
            "input": {"job": JOB | {"study": SECTION | section}},
        }
        return dict(admit.handler(event, CONTEXT))

    def answer(self, token: str, answer: Any) -> bool:
        self.answers.append((token, answer))
        return True

    def search(self) -> None:
        """Enter the state Search."""
        turn.handler({"run": STUDY, "task_token": "token"}, CONTEXT)

    def turn(self, run: str = STUDY) -> None:
        turn.handler({"run": run}, CONTEXT)

    def trials(self) -> dict[int, TrialState]:
        found = Studies("ledger").read(STUDY)
        assert found
        return {each.number: each.state for each in found.trials}

    def begun(self) -> dict[str, Any]:
        """Return the inputs of the executions of trials by name."""
        listed = self.states.list_executions(stateMachineArn=self.machine)["executions"]
        found = [self.states.describe_execution(executionArn=each["executionArn"]) for each in listed]
        return {each["name"]: json.loads(each["input"]) for each in found}

    def run(self, number: int, **values: Any) -> str:
        """Write the row of a trial's run."""
        name = f"{STUDY}-{number:04}-trial"
        known: dict[str, Any] = {
            "kind": "train",
            "state": "Train",
            "attempt": 1,
            "created": STARTED,
            "execution_arn": "arn",
        }
        self.ledger.write(run_row(name, known | values))  # type: ignore[arg-type]
        return name

    def end(
        self, number: int, outcome: str = "succeeded", metrics: dict[str, Any] | None = None, **values: Any
    ) -> None:
        """End the run of a trial, and take the turn that follows."""
        name = self.run(number, outcome=outcome, ended=STARTED, dollars=0.5, reason="it ended", **values)
        if metrics is not None:
            boto3.client("s3").put_object(
                Bucket="bucket", Key=f"runs/{name}/metrics.json", Body=json.dumps(metrics).encode()
            )
        self.turn(name)


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty account with the ledger and the bucket."""
    with mock_aws():
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
        clients.client.cache_clear()
        boto3.client("s3").create_bucket(Bucket="bucket")
        boto3.client("dynamodb").create_table(
            TableName="ledger",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        )
        yield
    clients.client.cache_clear()


@pytest.fixture
def yard(account: None, monkeypatch: pytest.MonkeyPatch) -> Yard:
    made = Yard()
    given = {"yard": "trainyard", "table_name": "ledger", "bucket_name": "bucket"}
    topic = boto3.client("sns").create_topic(Name="notices")["TopicArn"]
    more: dict[Any, dict[str, Any]] = {
        JobSettings: {"aws_region": "us-east-1", "monthly_dollars": 0.0},
        TurnSettings: {"train_state_machine_arn": made.machine},
        ConcludeSettings: {"topic_arn": topic},
    }
    monkeypatch.setattr(environment, "read", lambda kind: kind(**given, **more[kind]))
    monkeypatch.setattr(states, "succeed", made.answer)
    monkeypatch.setattr(states, "fail", made.answer)
    monkeypatch.setattr(turn, "clock", lambda: STARTED + timedelta(minutes=1))
    monkeypatch.setattr(
        messages, "invoke", lambda name, payload: made.invoked.append((name, json.loads(payload)))
    )
    return made


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
    answer = yard.admit()
    assert answer["kind"] == "refused"
    assert "study.parallel: found 2; this yard runs 1 at once (most_runs)" in answer["reason"]
    assert (
        "study.limits.dollars: found 10; this yard allows $2 a run, which is $8 for 4 trials"
        in answer["reason"]
    )


def test_the_end_answers_the_state_that_waits_once(yard: Yard) -> None:
    yard.admit(trials=1, parallel=1)
    yard.search()
    yard.end(1, metrics={"accuracy": 0.5})
    yard.turn()
    ((token, answer),) = yard.answers
    assert (token, answer["kind"]) == ("token", "finished")
    assert "the best is trial 1 with accuracy 0.5" in answer["reason"]


def test_warm_hosts_end_with_their_study(yard: Yard) -> None:
    yard.admit(trials=1, parallel=1)
    yard.search()
    run = yard.run(1)
    kept = {
        "run": run,
        "type": "g6.xlarge",
        "zone": "us-east-1a",
        "market": "spot",
        "image": "ami-1",
        "price": 0.3,
    }
    kept |= {"disk_gib": 45, "gib_month": 0.08, "since": STARTED, "until": STARTED, "minutes": 3.0}
    yard.ledger.write(
        Write("pool", "i-of-the-study", kept | {"study": STUDY}),
        Write("pool", "i-of-another", kept | {"study": "other-0a1b2c3d", "run": "other-0a1b2c3d-0001-trial"}),
    )
    yard.end(1, metrics={"accuracy": 0.5})
    (event,) = (event for name, event in yard.invoked if name == "trainyard-signal")
    assert (event["detail-type"], event["detail"]["run"]) == ("study", run)


def test_the_end_is_in_a_summary_and_a_list_of_trials(yard: Yard) -> None:
    yard.admit(trials=1, parallel=1)
    yard.turn()
    yard.end(1, metrics={"accuracy": 0.5})
    event = {
        "run": STUDY,
        "execution": f"arn:{STUDY}",
        "started": "2026-11-20T12:00:00.000Z",
        "outcome": {"kind": "finished", "reason": "all trials are reported"},
    }
    assert conclude.handler(event, CONTEXT)["outcome"] == "succeeded"
    summary = read_object(f"runs/{STUDY}/summary.json")
    assert (summary["best"], summary["value"], summary["trials"]) == (f"{STUDY}-0001-trial", 0.5, 1)
    (trial,) = read_object(f"runs/{STUDY}/trials.json")["trials"]
    assert (trial["state"], trial["value"], trial["dollars"]) == ("complete", 0.5, 0.5)
    yard.turn()
    assert len(yard.begun()) == 1, "an ended study starts nothing"
