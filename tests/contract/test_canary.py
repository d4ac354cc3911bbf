"""A canary on the local cloud: EMF lines of the function for predictions become metrics, and patrol decides by them."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lambdas.aws import prediction_metrics
from lambdas.aws.dynamodb import models as rows_of
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.logbook import Logbook
from lambdas.aws.dynamodb.models import Models
from lambdas.core.models import canary
from lambdas.core.models.registry import Move
from lambdas.steps.patrol import canaries
from tests.contract.conftest import Cloud, answering, eventually
from trainyard.protocol.export import Conversion
from trainyard.protocol.ledger.models import ModelRow, ModelRows, VersionRow, VersionState
from trainyard.protocol.requests import Act, ModelRequest

YARD = "trainyard"
GROUP = "/trainyard/functions/predict"


def line(model: str, version: int, at: datetime, milliseconds: float, errors: float) -> str:
    """Return a line as `measure_all` writes it."""
    names = {"Predictions": "Count", "Errors": "Count", "Milliseconds": "Milliseconds"}
    directive = {
        "Namespace": "Trainyard",
        "Dimensions": [["service", "model", "version"]],
        "Metrics": [{"Name": name, "Unit": unit} for name, unit in names.items()],
    }
    return json.dumps(
        {
            "_aws": {"Timestamp": int(1000 * at.timestamp()), "CloudWatchMetrics": [directive]},
            "service": YARD,
            "model": model,
            "version": str(version),
            "Predictions": [1.0],
            "Errors": [errors],
            "Milliseconds": [milliseconds],
        }
    )


def write(cloud: Cloud, lines: list[str], at: datetime) -> None:
    logs, stream = cloud.client("logs"), uuid.uuid4().hex
    if not logs.describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"]:
        logs.create_log_group(logGroupName=GROUP)
    logs.create_log_stream(logGroupName=GROUP, logStreamName=stream)
    events = [{"timestamp": int(1000 * at.timestamp()), "message": each} for each in lines]
    logs.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=events)


def new_model(table: str, name: str, began: datetime, **model: Any) -> ModelRows:
    """Write a model with two ready versions, whose canary has begun at this time."""
    row = ModelRow(name=name, owner="ada", created=began, request="r", aliases={"default": 1}, **model)
    versions = [
        VersionRow(
            number=number,
            label=f"v{number}",
            state=VersionState.READY,
            by="ada",
            at=began,
            request=f"r{number}",
            origin="s3://b/",
            lite=Conversion.WHOLE,
        )
        for number in (1, 2)
    ]
    ledger = Ledger(table)
    ledger.write(*rows_of.new_model_rows(row), *(rows_of.new_version_row(name, each) for each in versions))
    request = ModelRequest(
        request=f"model-{name}-1", act=Act.CANARY, model=name, version="2", percent=50, minutes=10
    )
    rows = Models(table).read(name)
    assert rows
    started = canary.start(request, rows, "ada", began)
    ledger.write(*rows_of.move_rows(started), rows_of.canary_row(name, began))
    found = Models(table).read(name)
    assert found
    return found


def read(table: str, model: str) -> ModelRows:
    found = Models(table).read(model)
    assert found
    return found


@pytest.mark.parametrize(
    ("errors", "milliseconds", "default", "why"),
    [
        (0.2, 5.0, 1, "rolled back: version 2 failed 6 of 30 requests (20.0%), and version 1 failed 0 of 30"),
        (0.0, 50.0, 1, "rolled back: version 2 takes 50 ms (median), and version 1 5 ms"),
        (0.0, 5.0, 2, "canary: version 2 failed 0 of 30 requests (0.0%)"),
    ],
)
def test_patrol_ends_or_promotes_a_canary_by_the_metrics_of_both_versions(
    cloud: Cloud, errors: float, milliseconds: float, default: int, why: str
) -> None:
    now = datetime.now(UTC)
    began, model, table = now - timedelta(minutes=15), "digits", f"ledger-{uuid.uuid4().hex[:8]}"
    model = f"digits-{uuid.uuid4().hex[:8]}"
    cloud.ledger(table)
    at = began + timedelta(minutes=5)
    bad = round(30 * errors)
    lines = [line(model, 1, at, 5.0, 0.0) for _ in range(30)]
    lines += [line(model, 2, at, milliseconds, float(number < bad)) for number in range(30)]
    write(cloud, lines, at)
    with answering(cloud):
        rows = new_model(table, model, began)
        assert rows.row.canary
        key = (model, 2, began)
        eventually(lambda: prediction_metrics.read(YARD, [key], now)[key].predictions == 30)
        assert Logbook(table).read_earlier().canaries == (model,)
        (said,) = canaries.review(table, YARD, [model], now)
        after = read(table, model)
        assert canaries.review(table, YARD, [model], now) == []
        assert Logbook(table).read_earlier().canaries == ()
    assert why in said
    assert (after.row.canary, after.row.aliases) == (None, {"default": default})
    assert (after.moves[-1].by in ("patrol", "ada"), why in after.moves[-1].why) == (True, True)


def test_a_canary_without_figures_stays_and_a_model_with_approval_waits(cloud: Cloud) -> None:
    now, table = datetime.now(UTC), f"ledger-{uuid.uuid4().hex[:8]}"
    began, model = now - timedelta(minutes=16), f"digits-{uuid.uuid4().hex[:8]}"
    cloud.ledger(table)
    with answering(cloud):
        rows = new_model(table, model, began, approval=1)
        (said,) = canaries.review(table, YARD, [model], now)
        assert f"{model}: CloudWatch has no predictions of version 2" in said
        assert read(table, model).row.canary == rows.row.canary
        promoted = canary.promote(rows, now, "canary: all well")
        assert not isinstance(promoted, Move)
        Ledger(table).write(*rows_of.changes(promoted))
        after = read(table, model).row
    assert (after.aliases, after.canary, after.pending["default"].version) == ({"default": 1}, None, 2)
