"""What signal makes of hosts' words: in the ledger, and of the tasks that wait."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from benchmarks.recorded import Recorded, answering
from lambdas import settings
from lambdas.handlers import signal
from lambdas.settings import SignalSettings

AT = "2026-11-20T12:00:00.000Z"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
JOB: dict[str, Any] = {"name": "digits", "program": {"module": "m"}, "cluster": {"workers": 2}}
HOST = {
    "attempt": 1,
    "type": "g6.xlarge",
    "zone": "a",
    "market": "spot",
    "price": Decimal(1),
    "launched": AT,
}


class Run:
    """A run of two hosts that trains in its second attempt."""

    def __init__(self, account: Recorded) -> None:
        self.account = account
        self.put(
            "run", kind="train", state="Train", attempt=2, created=AT, execution_arn="arn", job=_exact(JOB)
        )
        for number in (1, 2):
            self.put(f"attempt#{number:04d}", offer={"pool": "p"}, hosts=["i-a", "i-b"], launched=AT)
        self.put("attempt#0001", ending="lost")
        for host in ("i-a", "i-b"):
            self.put(f"host#{host}", **HOST)
        self.put("token#0002#train", token="waits", stored=AT)

    def put(self, sk: str, **values: Any) -> None:
        self.account.table.setdefault(("run#r", sk), {"pk": "run#r", "sk": sk}).update(values)

    def row(self, sk: str) -> dict[str, Any]:
        return self.account.table["run#r", sk]

    def says(self, host: str, word: str, **facts: Any) -> str:
        detail = {"run": "r", "attempt": 2, "instance": host, "at": AT, "signal": word, **facts}
        event = {"source": "trainyard.host", "detail-type": word, "detail": detail}
        return str(signal.handler(event, None)["result"])


def _exact(value: Any) -> Any:
    return json.loads(json.dumps(value), parse_float=Decimal)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    yard = SignalSettings(yard="trainyard", table_name="ledger", bucket_name="bucket", stop_document="stop")
    monkeypatch.setattr(settings, "read", lambda _: yard)
    monkeypatch.setattr(signal, "clock", lambda: NOON)
    with answering(Recorded(hosts={})) as account:
        yield Run(account)


def test_hosts_that_give_a_damaged_checkpoint_up_stay_for_the_next_attempt(run: Run) -> None:
    for host in ("i-a", "i-b"):
        run.says(host, "failed", kind="checkpoint", reason="the checkpoint is damaged", final=False)
    assert [run.row(f"host#{host}").get("lost") for host in ("i-a", "i-b")] == [None, None]
    ((token, word, said),) = run.account.answered
    assert (token, word, said["error"]) == ("waits", "Failure", "StartFailed")
    cause = json.loads(said["cause"])
    assert (cause["lost"], cause["all_well"], cause["final"]) == ([], True, False)


def test_a_host_that_fails_for_itself_is_lost(run: Run) -> None:
    run.says("i-b", "failed", kind="host", reason="the disk is full", final=False)
    assert run.row("host#i-b")["lost"] == "the disk is full"
    ((_, _, said),) = run.account.answered
    assert json.loads(said["cause"])["lost"] == ["i-b"]


def test_each_attempt_keeps_how_far_it_came(run: Run) -> None:
    run.says("i-a", "progress", step=40, steps=100, resumed={"step": 30})
    run.says("i-a", "checkpointed", step=45, key="k")
    run.says("i-a", "progress")
    assert [run.row("attempt#0002")[key] for key in ("reported", "checkpointed", "resumed")] == [
        40,
        45,
        {"step": 30},
    ]
    assert "reported" not in run.row("attempt#0001")
