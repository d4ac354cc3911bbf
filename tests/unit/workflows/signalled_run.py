"""A run whose hosts send signals."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from lambdas import environment
from lambdas.steps.signals.context import SignalSettings
from lambdas.workflows import signal
from tests.support.recorded import CONTEXT, Recorded, answering
from tests.unit.workflows.conftest import HOST

AT = "2026-11-20T12:00:00.000Z"
RUN_ROLE = "arn:aws:iam::123456789012:role/runs"
DEV_ROLE = "arn:aws:iam::123456789012:role/dev"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
JOB: dict[str, Any] = {"name": "digits", "program": {"module": "m"}, "cluster": {"workers": 2}}


class Run:
    """A run of two hosts that trains in its second attempt."""

    def __init__(self, account: Recorded) -> None:
        self.account = account
        self.put(
            "run", kind="train", state="Train", attempt=2, created=AT, execution_arn="arn", job=exact(JOB)
        )
        for number in (1, 2):
            self.put(f"attempt#{number:04d}", candidate={"pool": "p"}, hosts=["i-a", "i-b"], launched=AT)
        self.put("attempt#0001", ending="lost")
        for host in ("i-a", "i-b"):
            self.put(f"host#{host}", **HOST)
            self.account.table[f"instance#{host}", "run"] = {"run": "r", "attempt": 1}
        self.put("token#0002#train", token="waits", stored=AT)

    def put(self, sk: str, **values: Any) -> None:
        self.account.table.setdefault(("run#r", sk), {"pk": "run#r", "sk": sk}).update(values)

    def row(self, sk: str) -> dict[str, Any]:
        return self.account.table["run#r", sk]

    def says(self, host: str, word: str, **facts: Any) -> str:
        detail = {"run": "r", "attempt": 2, "instance": host, "at": AT, "signal": word, **facts}
        event = {"source": f"trainyard.host/AROA:{host}", "detail-type": word, "detail": detail}
        return str(signal.handler(event, CONTEXT)["result"])


def exact(value: Any) -> Any:
    return json.loads(json.dumps(value), parse_float=Decimal)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    yard = SignalSettings(
        yard="trainyard",
        table_name="ledger",
        bucket_name="bucket",
        stop_document="stop",
        host_role_id="AROAHOST",
        run_role=RUN_ROLE,
        dev_role=DEV_ROLE,
        dev_host_state_machine_arn="arn:dev-host",
        snapshot_state_machine_arn="arn:snapshot",
        version_state_machine_arn="arn:version",
        study_state_machine_arn="arn:study",
    )
    monkeypatch.setattr(environment, "read", lambda _: yard)
    monkeypatch.setattr(signal, "clock", lambda: NOON)
    with answering(Recorded(hosts={})) as account:
        yield Run(account)
