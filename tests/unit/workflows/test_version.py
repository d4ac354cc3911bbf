"""Requests about a model from the execution's start to its end: the rows, the files, and the answers."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from lambdas import environment
from lambdas.aws import clients, messages, states
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.models import Models
from lambdas.aws.dynamodb.rows import run_row
from lambdas.steps.signals import from_people
from lambdas.steps.signals.context import SignalSettings
from lambdas.workflows.version import admit, convert, copy, golden, publish
from tests.support.recorded import CONTEXT
from trainyard.core.model.errors import AccessDenied, Infrastructure, ServiceUnavailable, TrainyardError
from trainyard.protocol.ledger.models import ModelRows, VersionState
from trainyard.protocol.predictions import golden_event
from trainyard.protocol.requests import Act, ModelRequest, name_request
from trainyard.values import serialization

CALL = messages.call
AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
RUN = "digits-0a1b2c3d"
SIGNAL = SignalSettings(
    yard="trainyard",
    table_name="ledger",
    bucket_name="bucket",
    stop_document="stop",
    host_role_id="id",
    run_role="arn:run",
    dev_role="arn:dev",
    dev_host_state_machine_arn="arn:dev-host",
    snapshot_state_machine_arn="arn:snapshot",
    study_state_machine_arn="arn:study",
    version_state_machine_arn="arn:version",
)
MACHINE = "arn:aws:states:us-east-1:1:stateMachine:trainyard-train"
TYPES = {
    "inputs": {"image": {"dtype": "float32", "shape": [None, 2]}},
    "outputs": {"p": {"dtype": "float32", "shape": [None, 2]}},
}
RECORD = {
    "tensorflow": "2.21.0",
    "signatures": {"serving_default": TYPES},
    "lite": {"how": "whole", "signatures": ["serving_default"]},
}
GOLDEN = {
    "signatures": {
        "serving_default": {"inputs": {"image": [[0.0, 1.0]]}, "tensorflow": {"p": [[0.25, 0.75]]}}
    }
}
FILES = {
    "saved_model.pb": "graph",
    "variables/variables.index": "weights",
    "trainyard.json": json.dumps(RECORD),
    "assets.extra/golden.json": json.dumps(GOLDEN),
}


class Yard:
    """A yard with one run, whose function predict answers as the test says."""

    def __init__(self) -> None:
        self.count = 0
        self.answer: dict[str, Any] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.started: list[tuple[str, str, dict[str, Any]]] = []
        self.begins: dict[str, bool] = {}
        """For each name, True if its execution is new."""

    def predict(self, function: str, payload: bytes) -> dict[str, Any]:
        self.asked.append((function, json.loads(payload)))
        return self.answer

    def start(self, machine: str, name: str, given: dict[str, Any]) -> bool:
        self.started.append((machine, name, given))
        return self.begins.get(name, True)

    def write_run(self, files: dict[str, str], run: str = RUN, **values: Any) -> None:
        known: dict[str, Any] = {
            "kind": "train",
            "state": "Conclude",
            "attempt": 1,
            "created": AT,
            "execution_arn": "arn",
            "name": "digits",
            "job": {"name": "digits", "program": {"module": "training.programs.digits"}},
            "outcome": "succeeded",
            "ended": AT,
        }
        Ledger("ledger").write(run_row(run, known | values))  # type: ignore[arg-type]
        for path, text in {f"model/{path}": text for path, text in files.items()}.items():
            boto3.client("s3").put_object(Bucket="bucket", Key=f"runs/{run}/{path}", Body=text.encode())
        metrics = json.dumps({"accuracy": 0.98, "note": "a text"}).encode()
        boto3.client("s3").put_object(Bucket="bucket", Key=f"runs/{run}/metrics.json", Body=metrics)

    def request(self, act: str, by: str = "ada", **given: Any) -> tuple[str, dict[str, Any]]:
        """Start an execution; return its name and the answer of Admit."""
        self.count += 1
        name = name_request("digits", AT, f"{self.count:06x}")
        return name, self.admit(name, act, by, **given)

    def admit(self, name: str, act: str, by: str = "ada", **given: Any) -> dict[str, Any]:
        asked = {"request": {"request": name, "act": act, "model": "digits", **given}, "by": by}
        event = {
            "run": name,
            "execution": f"arn:{name}",
            "started": "2026-11-29T12:00:00.000Z",
            "input": asked,
        }
        return dict(admit.handler(event, CONTEXT))

    def make(self, label: str = "v1", **given: Any) -> dict[str, Any]:
        """Make a version, and return the answer of Publish."""
        name, admitted = self.request("version", version=label, origin=RUN, **given)
        assert admitted["kind"] == "admitted", admitted["reason"]
        which = {"model": "digits", "number": admitted["number"]}
        copied = copy.handler(which | {"prefix": admitted["prefix"]}, CONTEXT)
        outcome = golden.handler(which | {"changed": copied["changed"]}, CONTEXT)
        return self.publish(name, outcome)

    def publish(self, name: str, outcome: Any) -> dict[str, Any]:
        return dict(publish.handler({"run": name, "execution": "arn", "outcome": outcome}, CONTEXT))

    @property
    def rows(self) -> ModelRows:
        found = Models("ledger").read("digits")
        assert found
        return found


@pytest.fixture
def yard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    made = Yard()
    given = {"yard": "trainyard", "table_name": "ledger", "bucket_name": "bucket"}
    train = {"train_state_machine_arn": MACHINE}
    more = {convert.ConvertSettings: train, admit.AdmitSettings: train}
    monkeypatch.setattr(environment, "read", lambda kind: kind(**given, **more.get(kind, {})))
    monkeypatch.setattr(messages, "call", made.predict)
    with mock_aws():
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
        clients.client.cache_clear()
        boto3.client("s3").create_bucket(Bucket="bucket")
        keys = {"pk": "HASH", "sk": "RANGE"}
        boto3.client("dynamodb").create_table(
            TableName="ledger",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[
                {"AttributeName": name, "KeyType": kind}
                for name, kind in zip(keys, ("HASH", "RANGE"), strict=True)
            ],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
        )
        made.write_run(FILES)
        made.request("create")
        yield made
    clients.client.cache_clear()


def read(key: str) -> bytes:
    return bytes(boto3.client("s3").get_object(Bucket="bucket", Key=key)["Body"].read())


def test_a_version_has_the_files_of_its_run_their_digests_and_its_lineage(yard: Yard) -> None:
    assert yard.make()["kind"] == "ready"
    (made,) = yard.rows.versions
    assert (made.state, made.label, made.run, made.job) == (VersionState.READY, "v1", RUN, "digits")
    assert (made.program, made.metrics) == ("training.programs.digits", {"accuracy": 0.98})
    assert set(made.manifest) == set(FILES)
    assert made.signatures["serving_default"].inputs["image"].shape == (None, 2)
    assert {path: read(f"models/digits/1/{path}").decode() for path in FILES} == FILES
    ((function, asked),) = yard.asked
    assert function == "trainyard-predict"
    assert asked == golden_event("digits", 1)


def test_a_version_with_other_answers_than_tensorflow_is_refused(yard: Yard) -> None:
    words = "serving_default, row 0, p: found 0.75, expected 0.25"
    yard.answer = {"difference": words}
    assert words in yard.make()["reason"]
    (made,) = yard.rows.versions
    assert made.state is VersionState.REFUSED
    assert words in (made.reason or "")
    assert yard.request("move", version="v1")[1]["kind"] == "refused"
    yard.answer = {}
    assert yard.make()["number"] == 2, "the label of a refused version is free"


def test_a_file_that_was_changed_after_the_export_is_named(yard: Yard) -> None:
    record = RECORD | {"digests": dict.fromkeys(FILES, "0")}
    yard.write_run(FILES | {"trainyard.json": json.dumps(record)})
    assert "were changed after the export: assets.extra/golden.json, saved_model.pb" in yard.make()["reason"]


def test_a_version_that_litert_cannot_run_is_left_to_the_first_host(yard: Yard) -> None:
    reason = "DecodePng is not an operation of LiteRT"
    record = RECORD | {"lite": {"how": "none", "reason": reason}}
    yard.write_run(FILES | {"trainyard.json": json.dumps(record)})
    yard.answer = {"unchecked": reason}
    assert yard.make()["kind"] == "ready"
    (made,) = yard.rows.versions
    assert (made.lite, made.lite_reason) == ("none", reason)


class Waits:
    """The state Convert of one version, whose task the tests answer."""

    def __init__(self, yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[tuple[str, dict[str, Any]]] = []
        self.answered: list[Any] = []
        monkeypatch.setattr(states, "start", lambda _, name, given: not self.started.append((name, given)))  # type: ignore[func-returns-value]
        monkeypatch.setattr(states, "succeed", lambda *given: not self.answered.append(given))  # type: ignore[func-returns-value]
        monkeypatch.setattr(states, "fail", lambda *given: not self.answered.append(given))  # type: ignore[func-returns-value]
        for path in ("saved_model.pb", "variables/variables.index"):
            key = f"data/by/ada/exports/foreign/{path}"
            boto3.client("s3").put_object(Bucket="bucket", Key=key, Body=FILES[path].encode())
        origin = "s3://bucket/data/by/ada/exports/foreign/"
        self.request, admitted = yard.request("version", version="v1", origin=origin)
        assert admitted["kind"] == "unprepared", admitted["reason"]
        self.run = self.request.replace("model-", "convert-", 1)

    def enter(self, task_token: str) -> None:
        convert.handler({"run": self.request, "task_token": task_token}, CONTEXT)

    def hear_of_the_end(self) -> None:
        convert.handler({"run": self.run}, CONTEXT)


def test_a_saved_model_without_our_files_is_prepared_by_a_run(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits(yard, monkeypatch)
    waits.enter("token-1")
    ((run, given),) = waits.started
    assert (run, given["for_version"]) == (waits.run, {"request": waits.request})
    assert given["job"]["program"] == {"module": "training.programs.convert"}
    yard.write_run({}, waits.run, outcome=None, ended=None)
    waits.hear_of_the_end()
    assert not waits.answered, "the run has not ended"
    yard.write_run(FILES, waits.run)
    waits.hear_of_the_end()
    ((token, prepared),) = waits.answered
    assert (token, prepared["kind"], prepared["prefix"]) == ("token-1", "admitted", f"runs/{run}/model/")
    copied = copy.handler({name: prepared[name] for name in ("model", "number", "prefix")}, CONTEXT)
    checked = golden.handler({"model": "digits", "number": 1, "changed": copied["changed"]}, CONTEXT)
    assert yard.publish(waits.request, checked)["kind"] == "ready"
    (made,) = yard.rows.versions
    assert (made.origin, made.run, made.lite) == ("s3://bucket/data/by/ada/exports/foreign/", None, "whole")
    assert made.size == sum(map(len, FILES.values()))
    waits.hear_of_the_end()
    assert len(waits.answered) == 1, "a repeated event answers nothing"


def test_a_lost_event_costs_the_time_until_the_state_convert_looks_again(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits(yard, monkeypatch)
    waits.hear_of_the_end()
    assert not waits.started, "no state waits"
    waits.enter("token-1")
    yard.write_run(FILES, waits.run)
    waits.enter("token-2")
    assert [token for token, _ in waits.answered] == ["token-2"]


@pytest.mark.parametrize(
    ("outcome", "signatures", "words"),
    [
        ("failed", TYPES, "ended as failed: TensorFlow cannot load it"),
        ("succeeded", None, "has no signatures, so requests have no named inputs; export it with signatures"),
    ],
)
def test_a_saved_model_that_cannot_be_prepared_is_refused_with_the_reason(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, outcome: str, signatures: Any, words: str
) -> None:
    waits = Waits(yard, monkeypatch)
    waits.enter("token-1")
    record = RECORD | {"signatures": {"serving_default": signatures} if signatures else {}}
    files = FILES | {"trainyard.json": json.dumps(record)}
    yard.write_run(files, waits.run, outcome=outcome, reason="TensorFlow cannot load it")
    waits.hear_of_the_end()
    ((_, trouble),) = waits.answered
    assert trouble.error == "ModelRefused"
    assert words in trouble.reason
    yard.publish(waits.request, {"kind": "error", "error": trouble.error, "cause": trouble.to_cause()})
    assert words in (yard.rows.versions[0].reason or "")


def test_an_execution_that_ends_early_refuses_its_version_and_a_late_call_changes_nothing(yard: Yard) -> None:
    name, _ = yard.request("version", version="v1", origin=RUN)
    yard.publish(name, {"kind": "error", "error": "Aborted", "reason": "it was stopped by hand"})
    assert yard.rows.versions[0].reason == "it was stopped by hand"
    yard.publish(name, {"kind": "agrees", "reason": ""})
    assert yard.rows.versions[0].state is VersionState.REFUSED
    other, refused = yard.request("move", version="v1")
    assert refused["kind"] == "refused"
    assert yard.publish(other, {"kind": "error"})["kind"] == "not concluded"


def test_of_two_calls_that_end_a_version_only_the_first_counts(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _ = yard.request("version", version="v1", origin=RUN, alias="default")
    making = yard.rows
    assert yard.publish(name, {"kind": "agrees", "reason": ""})["kind"] == "ready"
    reads, now = iter([making]), Models.read
    monkeypatch.setattr(Models, "read", lambda self, model: next(reads, None) or now(self, model))
    late = yard.publish(name, {"kind": "error", "error": "Aborted", "reason": "it was stopped by hand"})
    assert late["kind"] == "ready"
    assert yard.rows.versions[0].state is VersionState.READY
    assert yard.rows.row.aliases == {"default": 1}


@pytest.mark.parametrize(
    ("act", "given"), [("version", {"version": "v2", "origin": RUN}), ("move", {"version": "v1"})]
)
def test_admit_changes_nothing_once_its_execution_was_stopped(
    yard: Yard, act: str, given: dict[str, str]
) -> None:
    yard.make("v1")
    name = name_request("digits", AT, "abcdef")
    event = {"run": name, "execution": "arn", "outcome": {"kind": "error"}, "cut_short": True}
    assert publish.handler(event, CONTEXT)["kind"] == "not concluded"
    late = yard.admit(name, act, **given)
    assert late["kind"] == "refused"
    assert "has ended, so nothing was changed" in late["reason"]
    assert len(yard.rows.versions) == 1
    assert yard.rows.moves == ()


def test_a_refused_version_cannot_be_retired(yard: Yard) -> None:
    name, _ = yard.request("version", version="v1", origin=RUN)
    yard.publish(name, {"kind": "error", "error": "Aborted", "reason": "it was stopped by hand"})
    refused = yard.request("retire", version="v1")[1]
    assert refused["reason"] == "version 1 (v1) of digits is refused, so it answers no requests anyway"
    assert yard.rows.versions[0].state is VersionState.REFUSED


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        ("ServiceUnavailable", ServiceUnavailable),
        ("AccessDenied", AccessDenied),
        ("Runtime.ExitError", Infrastructure),
    ],
)
def test_a_failure_of_a_called_function_is_retried_as_its_own(
    monkeypatch: pytest.MonkeyPatch, raised: str, kind: type[TrainyardError]
) -> None:
    said = json.dumps({"errorType": raised, "errorMessage": "it failed"}).encode()
    answer = {"FunctionError": "Unhandled", "Payload": io.BytesIO(said)}
    monkeypatch.setattr(messages, "client", lambda *_, **__: SimpleNamespace(invoke=lambda **_: answer))
    with pytest.raises(kind, match="trainyard-predict failed: it failed"):
        CALL("trainyard-predict", b"{}")


def test_an_alias_moves_back_and_forth_with_a_record_of_each_move(yard: Yard) -> None:
    yard.make("v1")
    yard.make("v2")
    first = yard.request("move", version="v1", alias="default")[1]
    second = yard.request("move", version="v2", alias="default")[1]
    back = yard.request("rollback", alias="default")[1]
    assert [first["reason"], second["reason"], back["reason"]] == [
        "default of digits names version 1 (v1)",
        "default of digits names version 2 (v2) instead of version 1 (v1)",
        "default of digits names version 1 (v1) instead of version 2 (v2)",
    ]
    assert yard.rows.row.aliases == {"default": 1}
    assert {(each.old, each.new, each.why) for each in yard.rows.moves} == {
        (None, 1, "set-default"),
        (1, 2, "set-default"),
        (2, 1, "rollback"),
    }


def test_a_repeated_call_of_admit_changes_nothing(yard: Yard) -> None:
    name, first = yard.request("version", version="v1", origin=RUN)
    assert yard.admit(name, "version", version="v1", origin=RUN) == first
    yard.publish(name, {"kind": "agrees"})
    name, moved = yard.request("move", version="v1", alias="default")
    assert yard.admit(name, "move", version="v1", alias="default") == moved
    assert len(yard.rows.moves) == len(yard.rows.versions) == 1


def test_two_versions_at_once_get_different_numbers(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    before = yard.rows
    yard.request("version", version="v1", origin=RUN)
    reads = iter([before])
    now = Models.read
    monkeypatch.setattr(Models, "read", lambda self, model: next(reads, None) or now(self, model))
    assert yard.request("version", version="v2", origin=RUN)[1]["number"] == 2


def test_the_alias_of_a_new_version_moves_once_it_is_ready(yard: Yard) -> None:
    assert yard.make(alias="candidate")["alias"] == "candidate"
    assert yard.rows.row.aliases == {"candidate": 1}


def test_the_best_trial_of_a_study_is_its_model(yard: Yard) -> None:
    search = {"metric": "accuracy", "trials": 1, "reported": 1, "running": 0, "dollars": 0, "most_dollars": 1}
    yard.write_run({}, "grid-1", kind="study", search=search | {"best": 3})
    trial = {"study": "grid-1", "number": 3, "submitter": "ada"}
    yard.write_run(FILES, "grid-1-0003-trial", trial=trial)
    admitted = yard.request("version", version="v1", origin="grid-1")[1]
    assert admitted["kind"] == "admitted", admitted["reason"]
    (made,) = yard.rows.versions
    assert (made.study, made.trial, made.run) == ("grid-1", 3, "grid-1-0003-trial")


@pytest.mark.parametrize(
    ("by", "act", "given", "words"),
    [
        ("eve", "move", {"version": "v1"}, "digits belongs to ada"),
        ("eve", "retire", {"version": "v1"}, "digits belongs to ada"),
        ("ada", "create", {}, "the model digits exists"),
        ("ada", "version", {"version": "v1", "origin": RUN}, "the label v1 of digits is taken"),
        ("ada", "version", {"version": "V2", "origin": RUN}, 'label: "V2" is not'),
        ("ada", "version", {"version": "v2", "origin": RUN, "alias": "7"}, "alias: 7 is a number"),
        ("ada", "version", {"version": "v2", "origin": "other-1"}, "the yard has no run other-1"),
        ("ada", "version", {"version": "v2", "origin": "s3://bucket/data/none/"}, "has no files"),
        (
            "ada",
            "version",
            {"model": "line", "version": "v2", "origin": RUN},
            "the yard has no model line; it has digits",
        ),
        ("ada", "retire", {"version": "v9"}, "digits has no version v9"),
        ("ada", "rollback", {"alias": "champion"}, "digits has no alias champion"),
    ],
)
def test_a_request_that_cannot_be_done_is_refused_with_its_reason(
    yard: Yard, by: str, act: str, given: dict[str, Any], words: str
) -> None:
    yard.make()
    before = yard.rows
    refused = yard.request(act, by, **given)[1]
    assert (refused["kind"], refused["error"]) == ("refused", "ModelRefused")
    assert words in refused["reason"]
    assert yard.rows == before


@pytest.mark.parametrize(
    ("source", "name", "begins"),
    [
        ("trainyard.people/ada", name_request("digits", AT, "abcdef"), {"by": "ada", "operator": False}),
        ("trainyard.operator/eve", name_request("digits", AT, "abcdef"), {"by": "eve", "operator": True}),
        ("trainyard.people/ada", "digits-0a1b2c3d", None),
    ],
)
def test_a_request_starts_an_execution_with_the_sender_that_iam_has_verified(
    monkeypatch: pytest.MonkeyPatch, source: str, name: str, begins: dict[str, Any] | None
) -> None:
    begun: list[tuple[str, str, dict[str, Any]]] = []
    monkeypatch.setattr(states, "start", lambda *given, **_: not begun.append(given))  # type: ignore[func-returns-value]
    request = ModelRequest(request=name, act=Act.MOVE, model="digits", version="v1")
    from_people.change_model(SIGNAL, request, source)
    if begins is None:
        assert begun == []
        return
    ((machine, started, given),) = begun
    assert (machine, started) == (SIGNAL.version_state_machine_arn, name)
    assert given == {"request": serialization.to_json(request), **begins}


def test_two_requests_start_one_host(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "start", yard.start)
    yard.make()
    yard.request("move", version="v1")
    how = {"instance_types": ["m7i.large"], "idle_minutes": 5.0}
    _, first = yard.request("serve", serve=how)
    _, second = yard.request("serve", by="bob")
    assert [first["run"], second["run"]] == ["serve-digits-1-0001"] * 2
    (row,) = yard.rows.served
    assert (row.by, row.start, row.how.instance_types) == ("ada", 1, ("m7i.large",))
    started = [each for each in yard.started if each[0] == MACHINE]
    assert {name for _, name, _ in started} == {"serve-digits-1-0001"}
    assert started[0][2]["serves"] == {"model": "digits", "number": 1, "submitter": "ada"}


@pytest.mark.parametrize(
    ("sentence", "begins", "is_over", "run"),
    [
        ("its execution begins only now", True, False, "serve-digits-1-0001"),
        ("its execution has begun", False, False, "serve-digits-1-0001"),
        ("its execution was stopped before Admit had written the run", False, True, "serve-digits-1-0002"),
    ],
)
def test_a_host_whose_execution_left_no_run_is_started_again(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, sentence: str, begins: bool, is_over: bool, run: str
) -> None:
    monkeypatch.setattr(states, "start", yard.start)
    yard.make()
    yard.request("move", version="v1")
    yard.request("serve", serve={"instance_types": ["m7i.large"]})
    yard.begins = {"serve-digits-1-0001": begins}
    monkeypatch.setattr(states, "is_over", lambda arn: is_over)
    _, again = yard.request("serve", by="bob")
    assert again["run"] == run, sentence


def test_a_version_that_a_host_serves_is_not_retired(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "start", yard.start)
    yard.make()
    yard.request("serve", version="v1", serve={"instance_types": ["m7i.large"]})
    _, refused = yard.request("retire", version="v1")
    line = "trainyard serve stop digits --version v1"
    said = f"serve-digits-1-0001 serves version 1 (v1) of digits; stop it first: {line}"
    assert (refused["kind"], refused["reason"]) == ("refused", said)
    yard.write_run({}, "serve-digits-1-0001")
    _, retired = yard.request("retire", version="v1")
    assert retired["kind"] == "changed"


def test_of_a_host_and_the_end_of_its_version_the_first_counts(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request for the host has read the version before it was retired."""
    monkeypatch.setattr(states, "start", yard.start)
    yard.make()
    before, reads = yard.rows, [yard.rows]
    yard.request("retire", version="v1")
    read = Models.read
    monkeypatch.setattr(Models, "read", lambda self, model: reads.pop() if reads else read(self, model))
    _, refused = yard.request("serve", version="v1", serve={"instance_types": ["m7i.large"]})
    assert (refused["kind"], "is retired" in refused["reason"]) == ("refused", True)
    assert before.versions[0].state is VersionState.READY
    assert [name for machine, name, _ in yard.started if machine == MACHINE] == []


def test_a_host_with_an_unknown_type_is_refused_before_its_start(yard: Yard) -> None:
    yard.make()
    _, refused = yard.request("serve", version="v1", serve={"instance_types": ["x9.large"]})
    assert (refused["kind"], "x9.large" in refused["reason"]) == ("refused", True)
    assert yard.rows.served == ()
