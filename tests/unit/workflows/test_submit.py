"""Executions that an upload starts, and their log lines."""

import pytest

from lambdas import environment
from lambdas.workflows import submit
from lambdas.workflows.submit import SubmitSettings
from tests.support.recorded import CONTEXT, Recorded, answering
from tests.unit.workflows.conftest import Log


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
    yard = SubmitSettings(
        yard="trainyard",
        table_name="ledger",
        bucket_name="bucket",
        train_state_machine_arn="train",
        study_state_machine_arn="study",
        bake_state_machine_arn="bake",
    )
    monkeypatch.setattr(environment, "read", lambda _: yard)
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


@pytest.mark.parametrize("key", ["jobs/notes.txt", "jobs/by/me/", "images/README", "jobs/digits.yaml.bak"])
def test_what_is_no_job_file_starts_nothing(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    yard = SubmitSettings(
        yard="trainyard",
        table_name="ledger",
        bucket_name="bucket",
        train_state_machine_arn="train",
        study_state_machine_arn="study",
        bake_state_machine_arn="bake",
    )
    monkeypatch.setattr(environment, "read", lambda _: yard)
    with answering(Recorded(hosts={}, objects={key: b""})) as account:
        answer = submit.handler({"detail": {"object": {"key": key, "etag": "1"}}}, CONTEXT)
    assert (answer, account.started) == ({"run": None, "started": False}, [])
