"""Runs for models at their admission: the preparation of a SavedModel, and a batch of predictions."""

from datetime import UTC, datetime
from typing import Any

import boto3
import pytest

from lambdas import environment
from lambdas.aws.dynamodb import models as rows_of
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.steps.job_check import JobSettings
from lambdas.workflows.train import admit
from tests.support.recorded import CONTEXT
from tests.unit.workflows.conftest import Place
from trainyard.protocol.conversions import ForVersion, request_of
from trainyard.protocol.export import SignatureTypes
from trainyard.protocol.ledger.models import ModelRow, VersionRow, VersionState

NOW = datetime(2026, 11, 29, tzinfo=UTC)
VERSION = ForVersion(request="model-digits-20261129T120000-0a1b2c")
ORIGIN = "data/by/ada/exports/digits/"
PREPARE = {"name": "convert", "program": {"module": "training.programs.convert"}}
BATCH = {"name": "new-digits", "predict": {"model": "digits", "source": "s3://BUCKET/data/new/"}}


@pytest.fixture(autouse=True)
def yard(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    yard = JobSettings(
        yard="trainyard",
        table_name="ledger",
        bucket_name="bucket",
        monthly_dollars=0.0,
        aws_region="us-east-1",
    )
    monkeypatch.setattr(environment, "read", lambda _: yard)
    for key in (f"{ORIGIN}saved_model.pb", "models/digits/1/saved_model.pb", "data/new/a.jsonl"):
        boto3.client("s3").put_object(Bucket="bucket", Key=key, Body=b"content")


def add_version(state: VersionState, **aliases: int) -> None:
    model = ModelRow(name="digits", owner="ada", created=NOW, request="r", aliases=aliases)
    version = VersionRow(
        number=1,
        label="v1",
        state=state,
        by="ada",
        at=NOW,
        request=VERSION.request,
        origin=f"s3://bucket/{ORIGIN}",
        signatures={"serving_default": SignatureTypes(inputs={}, outputs={})},
    )
    Ledger("ledger").write(*rows_of.new_model_rows(model), rows_of.new_version_row("digits", version))


def admitted(run: str, given: dict[str, Any]) -> dict[str, Any]:
    execution = f"arn:aws:states:us-east-1:123456789012:execution:trainyard-train:{run}"
    event = {"run": run, "execution": execution, "started": "2026-11-29T12:00:00.000Z", "input": given}
    return dict(admit.handler(event, CONTEXT))


def data_of(run: str) -> dict[str, str]:
    row = Ledger("ledger").run(run)
    assert row
    assert row.job
    return {name: each["source"] for name, each in row.job["data"].items()}


def test_a_run_that_prepares_a_version_is_its_users_and_reads_its_origin() -> None:
    add_version(VersionState.MAKING)
    given = {"job": PREPARE, "for_version": {"request": VERSION.request}}
    answer = admitted(VERSION.run, given)
    assert answer["kind"] == "admitted", answer["reason"]
    row = Ledger("ledger").run(VERSION.run)
    assert row
    assert row.submitter == "ada"
    assert data_of(VERSION.run) == {"model": f"s3://bucket/{ORIGIN}"}
    assert request_of(VERSION.run) == VERSION.request


@pytest.mark.parametrize(
    ("run", "state"), [("convert-0a1b2c3d", VersionState.MAKING), (VERSION.run, VersionState.READY)]
)
def test_only_the_workflow_version_starts_such_a_run(run: str, state: VersionState) -> None:
    add_version(state)
    answer = admitted(run, {"job": PREPARE, "for_version": {"request": VERSION.request}})
    assert answer["kind"] == "refused"
    assert "Only the workflow version starts such runs" in answer["reason"]


def test_a_batch_gets_the_files_of_the_version_that_its_model_names() -> None:
    add_version(VersionState.READY, default=1)
    answer = admitted("new-digits-0a1b2c3d", {"job": BATCH})
    assert answer["kind"] == "admitted", answer["reason"]
    assert data_of("new-digits-0a1b2c3d") == {
        "rows": "s3://bucket/data/new/",
        "model": "s3://bucket/models/digits/1/",
    }


@pytest.mark.parametrize(
    ("predict", "words"),
    [
        ({"model": "digits"}, "digits has no default version; choose one"),
        ({"model": "digist"}, "the yard has no model digist"),
        ({"model": "digits@v1", "source": "s3://BUCKET/data/none/"}, "predict.source"),
        ({"model": "digits@v1", "signature": "scores"}, "has no signature scores"),
    ],
)
def test_a_batch_that_cannot_be_answered_is_refused_before_it_starts(
    predict: dict[str, str], words: str
) -> None:
    add_version(VersionState.READY)
    job = {**BATCH, "predict": {"source": "s3://BUCKET/data/new/", **predict}}
    answer = admitted("new-digits-0a1b2c3d", {"job": job})
    assert answer["kind"] == "refused"
    assert words in answer["reason"]


def test_a_batch_with_fewer_files_than_workers_is_refused() -> None:
    add_version(VersionState.READY, default=1)
    answer = admitted("new-digits-0a1b2c3d", {"job": {**BATCH, "cluster": {"workers": 2}}})
    assert "predict.source: sharding is file, but there is 1 file" in answer["reason"]
