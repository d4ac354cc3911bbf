"""Undo and an image that EC2 has just begun to make."""

from datetime import UTC, datetime

import pytest

from lambdas import environment
from lambdas.workflows.snapshot import undo
from lambdas.workflows.snapshot.undo import UndoSettings
from tests.support.recorded import CONTEXT, Recorded, answering

IMAGING = {"instance": "i-a", "type": "g6.xlarge", "family": "digits", "parent": "ami-0"}


@pytest.mark.parametrize(
    ("image", "listed", "asked"),
    [("ami-1", {}, 2), ("ami-1", {"ami-1": "available"}, 0), ("", {}, 0)],
    ids=["not listed yet", "available", "undone before"],
)
def test_an_image_that_is_not_listed_yet_is_retired_all_the_same(
    monkeypatch: pytest.MonkeyPatch, image: str, listed: dict[str, str], asked: int
) -> None:
    yard = UndoSettings(yard="trainyard", table_name="ledger", bucket_name="b", resume_document="resume")
    monkeypatch.setattr(environment, "read", lambda _: yard)
    monkeypatch.setattr("time.sleep", lambda _: None)
    run = {
        "pk": "run#r",
        "sk": "run",
        "kind": "train",
        "state": "Capture",
        "attempt": 1,
        "created": datetime(2026, 11, 20, 12, tzinfo=UTC).isoformat(),
        "execution_arn": "arn",
        "image": image,
        "imaging": IMAGING,
    }
    with answering(
        Recorded(hosts={}, images=dict(listed), shown_late=1, table={("run#r", "run"): run})
    ) as account:
        undo.handler({"run": "r"}, CONTEXT)
    assert account.calls["ec2:DeregisterImage"] == asked
    assert account.table["run#r", "run"]["image"] == ("ami-1" if listed else "")
