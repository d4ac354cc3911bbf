"""What Release writes down of the hosts that it ends."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from benchmarks.recorded import CONTEXT, Host, Recorded, answering
from lambdas import settings
from lambdas.handlers import release
from lambdas.settings import YardSettings

AT = "2026-11-20T12:00:00.000Z"


def test_a_host_is_billed_until_ec2_has_taken_the_order_to_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(datetime(2026, 11, 20, 13, tzinfo=UTC) + timedelta(seconds=24 * n) for n in range(2))
    monkeypatch.setattr(release, "clock", lambda: next(times))
    yard = YardSettings(yard="trainyard", table_name="ledger", bucket_name="bucket")
    monkeypatch.setattr(settings, "read", lambda _: yard)
    rows: dict[str, dict[str, Any]] = {
        "run": {"kind": "train", "state": "Train", "attempt": 1, "created": AT, "execution_arn": "arn"},
        "attempt#0001": {"offer": {"pool": "p"}, "hosts": ["i-a"], "launched": AT},
        "host#i-a": {
            "attempt": 1,
            "type": "g6.xlarge",
            "zone": "a",
            "market": "spot",
            "price": Decimal(1),
            "launched": AT,
        },
    }
    table = {("run#r", sk): {"pk": "run#r", "sk": sk, **row} for sk, row in rows.items()}
    with answering(Recorded(hosts={"i-a": Host("i-a", tags={"trainyard:run": "r"})}, table=table)) as account:
        release.handler({"run": "r", "attempt": 1, "scope": "run"}, CONTEXT)
    assert account.hosts["i-a"].state == "shutting-down"
    assert account.table["run#r", "host#i-a"]["ended"] == "2026-11-20T13:00:24.000Z"
