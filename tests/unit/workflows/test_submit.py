"""Executions that an upload starts, and their log lines."""

import shlex

import pytest

from lambdas import environment
from lambdas.workflows import submit
from lambdas.workflows.submit import SubmitSettings
from tests.support.recorded import CONTEXT, Recorded, answering
from tests.unit.workflows.conftest import Log
from trainyard.core.model.errors import ServiceUnavailable

YARD = SubmitSettings(
    yard="trainyard",
    table_name="ledger",
    bucket_name="bucket",
    train_state_machine_arn="train",
    study_state_machine_arn="study",
    bake_state_machine_arn="bake",
    schedule_target="submit",
    schedule_role="role",
    schedule_queue="queue",
)
STUDY = b'{"name": "digits", "study": {"trials": 3}}'


@pytest.mark.parametrize(
    ("key", "text", "machine"),
    [
        ("jobs/digits.yaml", b"name: digits\n", "train"),
        ("jobs/broken.yaml", b"{", "train"),
        ("jobs/UPPER.YAML", b"name: digits\n", "train"),
        ("jobs/by/me/Plan.Json", b'{"name": "digits"}', "train"),
        ("jobs/study.yaml", b"name: digits\nstudy: {trials: 3}\n", "study"),
        ("jobs/study.plan.yaml", b"name: digits\nstudy: {trials: 3}\n", "train"),
        ("jobs/by/me/study.json", b'{"name": "digits", "study": {}}', "study"),
        ("images/gpu.yaml", b"name: gpu\nstudy: {}\n", "bake"),
    ],
)
def test_an_upload_starts_one_execution_and_the_log_names_its_run(
    monkeypatch: pytest.MonkeyPatch, log: Log, key: str, text: bytes, machine: str
) -> None:
    monkeypatch.setattr(environment, "read", lambda _: YARD)
    with answering(Recorded(hosts={}, objects={key: text})) as account:
        detail = {"object": {"key": key, "etag": "1"}, "requester": "123456789012"}
        answer = submit.handler({"detail": detail}, CONTEXT)
    ((name, given),) = account.started
    assert answer == {"run": name, "started": True}
    assert account.running == {machine: [name]}
    assert key in given.values()
    assert given.get("requester") == ("123456789012" if machine != "bake" else None)
    lines = [line for line in log.lines() if "_aws" not in line]
    assert lines
    assert {line["run"] for line in lines} == {name}


@pytest.mark.parametrize(
    ("key", "text", "machine", "by_hand"),
    [
        ("jobs/digits.yaml", b"name: digits\n", "train", "trainyard submit digits.yaml"),
        ("jobs/by/me/my study.json", STUDY, "study", "trainyard submit 'my study.json'"),
        ("images/gpu.yaml", b"name: gpu\n", "bake", "trainyard image bake gpu.yaml"),
    ],
)
def test_an_upload_during_a_throttle_starts_once_it_is_over_and_a_dead_letter_names_the_command(
    monkeypatch: pytest.MonkeyPatch, key: str, text: bytes, machine: str, by_hand: str
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(environment, "read", lambda _: YARD)
    event = {"detail": {"object": {"key": key, "etag": "1", "version-id": "v1"}}}
    with answering(Recorded(hosts={}, objects={key: text})) as account:
        account.broken["StartExecution"] = "ThrottlingException"
        with pytest.raises(ServiceUnavailable) as late:
            submit.handler(event, CONTEXT)
        assert account.calls["sfn:StartExecution"] > 1
        assert late.value.reason.endswith(f"{shlex.quote(f's3://bucket/{key}')} . && {by_hand}")
        account.broken.clear()
        answer = submit.handler(event, CONTEXT)
    assert answer["started"]
    assert account.running == {machine: [answer["run"]]}


@pytest.mark.parametrize("key", ["jobs/notes.txt", "jobs/by/me/", "images/README", "jobs/digits.yaml.bak"])
def test_what_is_no_job_file_starts_nothing(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setattr(environment, "read", lambda _: YARD)
    with answering(Recorded(hosts={}, objects={key: b""})) as account:
        answer = submit.handler({"detail": {"object": {"key": key, "etag": "1"}}}, CONTEXT)
    assert (answer, account.started) == ({"run": None, "started": False}, [])
