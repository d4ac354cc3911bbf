"""A run that serves a model is admitted only as the request for a host started it, with the version's files."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lambdas import environment
from lambdas.aws.dynamodb import models as rows_of
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.core.models import serving
from lambdas.steps.job_check import JobSettings
from lambdas.workflows.train import admit
from tests.support.recorded import CONTEXT
from tests.unit.workflows.conftest import Place
from trainyard.protocol.ledger.models import ModelRow, ServedRow, VersionRow, VersionState
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.serving import ServeHow

NOW = datetime(2026, 11, 20, tzinfo=UTC)
ROW = ServedRow(
    number=2, start=3, run="serve-text-2-0003", by="ada", at=NOW, request="r", how=ServeHow(hours=2.0)
)
VERSION = VersionRow(
    number=2, label="v2", state=VersionState.READY, by="ada", at=NOW, request="r", origin="s3://bucket/x/"
)


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
    place.put("models/text/2/saved_model.pb", {"a": "graph"})
    model = ModelRow(name="text", owner="ada", created=NOW, request="r0")
    Ledger("ledger").write(*rows_of.new_model_rows(model), rows_of.new_version_row("text", VERSION))


def admitted(run: str, **changes: Any) -> tuple[dict[str, Any], RunRow]:
    """Return the answer of Admit and the row that it has written."""
    given = serving.input_of("text", VERSION, ROW)
    event = {
        "run": run,
        "execution": f"arn:aws:states:us-east-1:123456789012:execution:trainyard-train:{run}",
        "started": "2026-11-20T12:00:00.000Z",
        "input": given | {"serves": given["serves"] | changes},
    }
    answer = admit.handler(event, CONTEXT)
    row = Ledger("ledger").run(run)
    assert row is not None
    return answer, row


def test_the_run_reads_the_versions_files_and_belongs_to_the_user_who_requested_it() -> None:
    Ledger("ledger").write(rows_of.served_row("text", replace(ROW, start=1)))
    answer, row = admitted(ROW.run)
    assert answer["kind"] == "admitted", answer["reason"]
    assert row.job
    assert row.job["data"]["model"]["source"] == "s3://bucket/models/text/2/"
    assert (row.submitter, row.serves and row.serves.model) == ("ada", "text")


@pytest.mark.parametrize(
    ("run", "changes"),
    [
        ("serve-text-2-0004", {}),
        (ROW.run, {"submitter": "eve"}),
        (ROW.run, {"number": 1}),
        (ROW.run, {"model": "other"}),
    ],
)
def test_no_other_execution_serves(run: str, changes: dict[str, Any]) -> None:
    Ledger("ledger").write(rows_of.served_row("text", replace(ROW, start=1)))
    answer, row = admitted(run, **changes)
    assert (answer["kind"], row.outcome) == ("refused", None)
    assert "no request of" in answer["reason"]


@pytest.mark.parametrize("state", [VersionState.RETIRED, VersionState.REFUSED])
def test_a_version_that_is_not_ready_any_more_gets_no_host(state: VersionState) -> None:
    Ledger("ledger").write(rows_of.served_row("text", replace(ROW, start=1)))
    Ledger("ledger").write(rows_of.version_row("text", 2, {"state": state.value}))
    answer, _ = admitted(ROW.run)
    assert (answer["kind"], f"version 2 (v2) of text is {state}" in answer["reason"]) == ("refused", True)
