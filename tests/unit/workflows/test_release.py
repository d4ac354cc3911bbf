"""Rows that Release writes about the hosts that it ends."""

import contextlib
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from lambdas import environment
from lambdas.workflows import release
from lambdas.workflows.release import ReleaseSettings
from tests.support.recorded import CONTEXT, Host, Recorded, answering
from tests.unit.core import builders
from tests.unit.workflows.conftest import HOST
from trainyard.core.model.errors import ServiceUnavailable
from trainyard.protocol.plan import Plan
from trainyard.values import serialization

AT = "2026-11-20T12:00:00.000Z"
MOST = 3


@pytest.fixture(autouse=True)
def yard(monkeypatch: pytest.MonkeyPatch) -> None:
    values = ReleaseSettings(
        yard="trainyard", table_name="ledger", bucket_name="bucket", most_pool_hosts=MOST
    )
    monkeypatch.setattr(environment, "read", lambda _: values)


def account(*names: str, **rows: dict[str, Any]) -> Recorded:
    """Return an account with the run r on these hosts, the first of them in its attempt; `rows` add values to their
    rows."""
    ledger: dict[str, dict[str, Any]] = {
        "run": {"kind": "train", "state": "Train", "attempt": 1, "created": AT, "execution_arn": "arn"},
        "attempt#0001": {"candidate": {"pool": "p"}, "hosts": [names[0]], "launched": AT},
        **{f"host#{name}": {**HOST, **rows.get(name.replace("-", "_"), {})} for name in names},
    }
    table = {("run#r", sk): {"pk": "run#r", "sk": sk, **row} for sk, row in ledger.items()}
    return Recorded(hosts={name: Host(name, tags={"trainyard:run": "r"}) for name in names}, table=table)


def test_a_host_is_billed_until_ec2_has_taken_the_order_to_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(datetime(2026, 11, 20, 13, tzinfo=UTC) + timedelta(seconds=24 * n) for n in range(2))
    monkeypatch.setattr(release, "clock", lambda: next(times))
    with answering(account("i-a")) as seen:
        release.handler({"run": "r", "attempt": 1, "scope": "run"}, CONTEXT)
    assert seen.hosts["i-a"].state == "shutting-down"
    assert seen.table["run#r", "host#i-a"]["ended"] == "2026-11-20T13:00:24.000Z"


def test_of_an_attempt_that_trains_the_lost_alone_are_ended() -> None:
    rows = {"i_a": {"warned": AT}, "i_b": {"lost": "it never got ready"}}
    with answering(account("i-a", "i-b", **rows)) as seen:
        release.handler({"run": "r", "attempt": 1, "scope": "lost", "lost": ["i-b"]}, CONTEXT)
    states = {name: each.state for name, each in seen.hosts.items()}
    assert states == {"i-a": "running", "i-b": "shutting-down"}
    assert "ended" in seen.table["run#r", "host#i-b"]
    assert "ended" not in seen.table["run#r", "host#i-a"]
    assert seen.table["run#r", "run"]["state"] == "Train"


def test_a_host_that_launch_died_over_is_ended_and_on_the_runs_bill() -> None:
    """EC2 shows the host with its tag; the ledger lacks it."""
    seen = account("i-a")
    launched = datetime(2026, 11, 20, 11, 58, tzinfo=UTC)
    tags = {
        "trainyard:run": "r",
        "trainyard:attempt": "2",
        "trainyard:price": "0.650000",
        "trainyard:disk": "100",
    }
    seen.hosts["i-b"] = Host("i-b", launched=launched, tags=tags)
    with answering(seen):
        release.handler({"run": "r", "attempt": 2, "scope": "run"}, CONTEXT)
    assert seen.hosts["i-b"].state == "shutting-down"
    row = seen.table["run#r", "host#i-b"]
    assert (row["attempt"], row["type"], row["disk_gib"], float(row["price"])) == (2, "g5.xlarge", 100, 0.65)
    assert row["launched"] < row["releasing"] <= row["ended"]


def test_a_run_whose_launch_may_still_get_hosts_is_looked_at_again() -> None:
    seen = account("i-a")
    request = {"attempt": 1, "candidate": 0, "round": 0, "token": "t", "at": datetime.now(UTC).isoformat()}
    seen.table["run#r", "launch-request#0001#000#000"] = {
        "pk": "run#r",
        "sk": "launch-request#0001#000#000",
        **request,
    }
    with answering(seen), pytest.raises(ServiceUnavailable, match="may still launch hosts"):
        release.handler({"run": "r", "attempt": 1, "scope": "run"}, CONTEXT)
    assert seen.hosts["i-a"].state == "shutting-down"


def ended_well(keep: int = 2, **changes: Any) -> Recorded:
    """Return an account with a successful run of two hosts that keeps `keep` of them; `changes` apply to its rows."""
    names = ("i-a", "i-b")
    seen = account(*names)
    job = serialization.to_json(builders.job(pool={"keep": keep, "minutes": 30}))
    plan = serialization.to_json(
        Plan((builders.candidate(zone="a"),), (), "ami-1", 2, None, builders.NOON, "")
    )
    seen.table["run#r", "run"] |= {"job": job}
    seen.table["run#r", "plan"] = {"pk": "run#r", "sk": "plan", **plan}
    seen.table["run#r", "attempt#0001"] |= {"hosts": list(names), "ending": "finished"}
    for sk, values in changes.items():
        seen.table["run#r", sk] |= values
    seen.table = {
        key: json.loads(json.dumps(row, default=float), parse_float=Decimal)
        for key, row in seen.table.items()
    }
    return seen


def release_all(**more: Any) -> None:
    release.handler({"run": "r", "attempt": 1, "scope": "run", **more}, CONTEXT)


def in_pool(seen: Recorded) -> list[str]:
    return [sk for pk, sk in seen.table if pk == "pool"]


def states(seen: Recorded) -> dict[str, str]:
    return {name: each.state for name, each in seen.hosts.items()}


def test_a_run_that_has_ended_well_keeps_its_hosts_by_row_and_tag_and_is_billed_to_its_end() -> None:
    with answering(ended_well()) as seen:
        release_all()
        release_all()
    assert states(seen) == {"i-a": "running", "i-b": "running"}
    assert in_pool(seen) == ["i-a", "i-b"]
    row, host = seen.table["pool", "i-a"], seen.table["run#r", "host#i-a"]
    assert (row["run"], row["minutes"], "ready" in row) == ("r", 30, False)
    assert host["pooled"] == host["ended"] == row["since"]
    assert seen.hosts["i-a"].tags["trainyard:pool"] == f"{row['until']} r"
    assert seen.table["counters", "pool"]["number"] == 1, "the second call changes nothing"


def test_a_failed_trial_leaves_its_hosts_to_its_study() -> None:
    trial = {"study": "digits-0a1b2c3d", "number": 2, "submitter": "ada"}
    changes: dict[str, Any] = {"run": {"trial": trial}, "attempt#0001": {"ending": "failed"}}
    with answering(ended_well(**changes)) as seen:
        release_all()
    assert states(seen) == {"i-a": "running", "i-b": "running"}
    assert seen.table["pool", "i-a"]["study"] == "digits-0a1b2c3d"


def test_what_it_does_not_keep_ends() -> None:
    with answering(ended_well(keep=1)) as seen:
        release_all()
    assert states(seen) == {"i-a": "running", "i-b": "shutting-down"}


def test_a_run_that_was_cut_short_after_its_release_leaves_the_pool_alone() -> None:
    """A rule calls Release because Conclude failed."""
    with answering(ended_well()) as seen:
        release_all()
        release.handler({"run": "r", "scope": "run", "execution": "arn"}, CONTEXT)
    assert states(seen) == {"i-a": "running", "i-b": "running"}


def test_a_host_whose_tag_was_never_written_ends_when_a_rule_calls() -> None:
    with answering(ended_well()) as seen:
        release_all()
        del seen.hosts["i-b"].tags["trainyard:pool"]
        release.handler({"run": "r", "scope": "run", "execution": "arn"}, CONTEXT)
    assert states(seen) == {"i-a": "running", "i-b": "shutting-down"}


@pytest.mark.parametrize("call", ["TransactWriteItems", "CreateTags"])
def test_hosts_that_cannot_be_kept_end(call: str) -> None:
    seen = ended_well()
    seen.broken[call] = "ValidationException" if call == "TransactWriteItems" else "UnauthorizedOperation"
    with answering(seen), contextlib.suppress(Exception):
        release_all()
    assert states(seen) == {"i-a": "shutting-down", "i-b": "shutting-down"}
    if call == "CreateTags":
        said = [str(row.get("reason")) for (pk, _), row in seen.table.items() if pk.startswith("timeline#")]
        assert any("hosts could not be kept for the next run (pool) and were ended" in each for each in said)


def test_a_host_that_somebody_holds_is_no_other_runs() -> None:
    seen = ended_well()
    seen.hosts["i-a"].tags["trainyard:hold"] = "2099-01-01T00:00:00.000Z"
    with answering(seen):
        release_all()
    assert states(seen) == {"i-a": "shutting-down", "i-b": "running"}


def test_a_host_that_was_taken_and_never_tagged_is_the_runs_that_took_it() -> None:
    seen = account("i-a", "i-b", i_b={"claimed_from": "before"})
    seen.hosts["i-b"].tags["trainyard:run"] = "before"
    with answering(seen):
        release_all()
    assert states(seen) == {"i-a": "shutting-down", "i-b": "shutting-down"}
