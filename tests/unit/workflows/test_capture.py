"""Capture and its image when the run ends before Capture checks again."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from lambdas import environment
from lambdas.environment import YardSettings
from lambdas.workflows.bake import capture
from tests.support.recorded import CONTEXT, Recorded, answering
from tests.unit.workflows.conftest import HOST
from trainyard.core.model.errors import ImageFailed

AT = "2026-11-20T12:00:00.000Z"
ROWS: dict[str, dict[str, Any]] = {
    "run": {
        "kind": "bake",
        "state": "Conclude",
        "attempt": 1,
        "created": AT,
        "execution_arn": "arn",
        "recipe": {"name": "gpu", "hash": "0123456789abcdef", "base": "ami-base", "software": "50f7"},
        "image": "ami-1",
        "ended": AT,
    },
    "attempt#0001": {"candidate": {"pool": "p"}, "hosts": ["i-a"], "launched": AT},
    "host#i-a": HOST,
    "wait#0001#capture": {"since": AT, "image": "ami-1"},
    "token#0001#capture": {"token": "t", "stored": AT, "answered": AT},
}


def captured_late(
    monkeypatch: pytest.MonkeyPatch, outcome: str, answer: AbstractContextManager[object]
) -> Recorded:
    """Call Capture after the run has ended, as after a delay. Return the account."""
    yard = YardSettings(yard="trainyard", table_name="ledger", bucket_name="b")
    monkeypatch.setattr(environment, "read", lambda _: yard)
    table = {("run#r", sk): {"pk": "run#r", "sk": sk, **row} for sk, row in ROWS.items()}
    table["run#r", "run"]["outcome"] = outcome
    with answering(Recorded(hosts={}, images={"ami-1": "available"}, table=table)) as account, answer:
        capture.handler({"run": "r", "attempt": 1, "task_token": "t"}, CONTEXT)
    return account


def test_the_image_of_a_run_that_has_ended_well_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    account = captured_late(monkeypatch, "succeeded", nullcontext())
    assert account.calls["ec2:DeregisterImage"] == 0
    assert account.table["run#r", "run"]["image"] == "ami-1"


@pytest.mark.parametrize("outcome", ["stopped", "failed"])
def test_the_image_of_a_run_that_has_not_is_retired(monkeypatch: pytest.MonkeyPatch, outcome: str) -> None:
    account = captured_late(
        monkeypatch, outcome, pytest.raises(ImageFailed, match="ami-1 was made; the image was retired")
    )
    assert account.calls["ec2:DeregisterImage"] == 1
    assert account.table["run#r", "run"]["image"] == ""
