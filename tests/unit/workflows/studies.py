"""A yard with one study, for tests of the functions of studies: what they write, start and answer."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from lambdas import environment
from lambdas.aws import messages, states
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import run_row
from lambdas.aws.dynamodb.studies import Studies
from lambdas.environment import YardSettings
from lambdas.steps.job_check import JobSettings
from lambdas.steps.signals.context import SignalSettings
from lambdas.workflows import signal
from lambdas.workflows.study import admit, conclude, turn
from lambdas.workflows.study.conclude import ConcludeSettings
from lambdas.workflows.study.turn import TurnSettings
from tests.support.recorded import CONTEXT
from trainyard.protocol.ledger.study import TrialState

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
        self.machine, self.study_machine = self._machine("train"), self._machine("study")

    def _machine(self, word: str) -> str:
        made = self.states.create_state_machine(
            name=f"trainyard-{word}-{id(self)}",
            definition=json.dumps({"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}),
            roleArn="arn:aws:iam::123456789012:role/any",
        )
        return str(made["stateMachineArn"])

    def admit(self, **section: Any) -> dict[str, Any]:
        event = {
            "run": STUDY,
            "execution": f"arn:{STUDY}",
            "started": "2026-11-20T12:00:00.000Z",
            "input": {"job": JOB | {"study": SECTION | section}},
        }
        return dict(admit.handler(event, CONTEXT))

    def continue_(self, part: int = 2) -> dict[str, Any]:
        """Enter the execution that signal has started to continue the study."""
        name = f"{STUDY}-part-{part:04}"
        (given,) = [each for known, each in self.executions(self.study_machine).items() if known == name]
        event = {
            "run": name,
            "execution": f"arn:{name}",
            "started": "2026-11-20T14:00:00.000Z",
            "input": given,
        }
        return dict(admit.handler(event, CONTEXT))

    def request(self, word: str, source: str = "trainyard.people/ada", **detail: Any) -> str:
        event = {"source": source, "detail-type": word, "detail": {"run": STUDY, **detail}}
        return str(signal.handler(event, CONTEXT)["result"])

    def conclude(self, part: int = 1, **outcome: Any) -> dict[str, Any]:
        name = STUDY if part == 1 else f"{STUDY}-part-{part:04}"
        known = {"kind": "finished", "reason": "all trials are reported"}
        started = "2026-11-20T12:00:00.000Z" if part == 1 else "2026-11-20T14:00:00.000Z"
        event = {"run": name, "execution": f"arn:{name}", "started": started, "outcome": known | outcome}
        return dict(conclude.handler(event, CONTEXT))

    def answer(self, token: str, answer: Any) -> bool:
        self.answers.append((token, answer))
        return True

    def search(self) -> None:
        """Enter the state Search."""
        turn.handler({"run": STUDY, "task_token": "token"}, CONTEXT)

    def search_part(self, part: int) -> None:
        """Enter the state Search of a continuation."""
        turn.handler({"run": f"{STUDY}-part-{part:04}", "task_token": f"token {part}"}, CONTEXT)

    def reasons(self) -> list[tuple[str, str]]:
        """Return the answered task tokens and the reasons of the answers."""
        return [
            (token, answer["reason"] if isinstance(answer, dict) else answer.reason)
            for token, answer in self.answers
        ]

    def turn(self, run: str = STUDY) -> None:
        turn.handler({"run": run}, CONTEXT)

    def trials(self) -> dict[int, TrialState]:
        found = Studies("ledger").read(STUDY)
        assert found
        return {each.number: each.state for each in found.trials}

    def begun(self) -> dict[str, Any]:
        """Return the inputs of the executions of trials by name."""
        return self.executions(self.machine)

    def executions(self, machine: str) -> dict[str, Any]:
        """Return the inputs of the executions of a state machine by name."""
        listed = self.states.list_executions(stateMachineArn=machine)["executions"]
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


def begin(monkeypatch: pytest.MonkeyPatch) -> Yard:
    """Return the yard of an empty account, and give the functions its settings."""
    made = Yard()
    given = {"yard": "trainyard", "table_name": "ledger", "bucket_name": "bucket"}
    topic = boto3.client("sns").create_topic(Name="notices")["TopicArn"]
    more: dict[Any, dict[str, Any]] = {
        JobSettings: {"aws_region": "us-east-1", "monthly_dollars": 0.0},
        TurnSettings: {"train_state_machine_arn": made.machine},
        YardSettings: {},
        ConcludeSettings: {"topic_arn": topic, "version_state_machine_arn": "arn:version"},
        SignalSettings: {"study_state_machine_arn": made.study_machine},
    }
    monkeypatch.setattr(environment, "read", lambda kind: kind(**given, **more[kind]))
    monkeypatch.setattr(states, "succeed", made.answer)
    monkeypatch.setattr(states, "fail", made.answer)
    monkeypatch.setattr(turn, "clock", lambda: STARTED + timedelta(minutes=1))
    monkeypatch.setattr(
        messages, "invoke", lambda name, payload: made.invoked.append((name, json.loads(payload)))
    )
    return made
