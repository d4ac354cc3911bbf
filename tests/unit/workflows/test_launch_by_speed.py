"""Launch by speed: requests that name several capacity pools."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lambdas import environment
from lambdas.aws.dynamodb.write import Write
from lambdas.aws.ec2 import fleet, instances
from lambdas.aws.ec2.fleet import Launched
from lambdas.aws.ec2.instances import Instance
from lambdas.core.capacity.placement import FleetRefusal
from lambdas.core.run.records import Records
from lambdas.workflows.train import launch
from lambdas.workflows.train.launch.request import LaunchSettings
from tests.support.recorded import CONTEXT
from tests.support.records import AT, JOB
from tests.unit.core.builders import NOON, candidate
from tests.unit.workflows.conftest import TOPIC, Log, Place
from trainyard.protocol.plan import Market, Plan, RefusalKind
from trainyard.values import serialization

A, B = candidate("g6.xlarge", "us-east-1a"), replace(candidate("g5.xlarge", "us-east-1b"), price=0.45)
D = candidate("g6.xlarge", "us-east-1a", Market.ON_DEMAND)
FULL = FleetRefusal(RefusalKind.CAPACITY, "InsufficientInstanceCapacity", "no room")
OF_AN_ATTEMPT = (
    ("attempt", ""),
    ("token", "#train"),
    ("launch-request", "#000#000"),
    ("launch-requests", ""),
)
"""Rows of an attempt."""
NEVER = FleetRefusal(RefusalKind.UNSUPPORTED, "Unsupported", "never there")
IN_B = Launched(("i-1", "i-2"), B.type, B)


class Ec2:
    """EC2 with an answer for each request; it keeps the requests."""

    def __init__(self, *answers: Any, there: tuple[Instance, ...] = ()) -> None:
        self.answers, self.there = list(answers), there
        self.asked: list[tuple[list[str], str, Mapping[str, str]]] = []

    def launch(
        self, _part: Any, candidates: Any, *_: Any, client_token: str, tags: Mapping[str, str], **_more: Any
    ) -> Any:
        self.asked.append(([each.pool for each in candidates], client_token, tags))
        return self.answers.pop(0)


def launched(place: Place, monkeypatch: pytest.MonkeyPatch, ec2: Ec2, **request: Any) -> tuple[str, Records]:
    """Run Launch of the first attempt with two hosts; return the ledger. `request` is the row of an earlier call."""
    gone = [f"host#{name}" for name in place.hosts] + [f"{row}#0001{more}" for row, more in OF_AN_ATTEMPT]
    place.ledger.write(*(Write("run#digits-1", sk, delete=True) for sk in gone))
    job = {**JOB, "cluster": {"strategy": "multi_worker", "workers": 2}, "hardware": {"prefer": "speed"}}
    place.row("plan", serialization.to_json(Plan((A, B, D), (), "ami-1", 2, 99.0, NOON, "", 0)))
    place.row(
        "run", {"job": job, "state": "Launch", "deadline": serialization.timestamp(NOON + timedelta(hours=2))}
    )
    if request:
        place.row("launch-request#0001#000#000", {"token": "t", "at": AT, "batch": [1], **request})
    yard = LaunchSettings(
        yard="trainyard",
        table_name="ledger",
        bucket_name="bucket",
        topic_arn=TOPIC,
        launch_templates=("0=lt-0:1",),
    )
    monkeypatch.setattr(environment, "read", lambda _: yard)
    monkeypatch.setattr(launch, "clock", lambda: NOON)
    monkeypatch.setattr(fleet, "launch", ec2.launch)
    monkeypatch.setattr(instances, "find_by_run", lambda *_, **__: ec2.there)
    said: dict[str, Any] = launch.handler({"run": "digits-1", "attempt": 1}, CONTEXT)
    return said["kind"], place.ledger.require("digits-1")


def test_hosts_are_billed_as_those_of_the_pool_that_was_taken(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ec2 = Ec2(IN_B)
    kind, records = launched(place, monkeypatch, ec2)
    assert kind == "launched"
    ((asked, _, tags),) = ec2.asked
    assert asked == [A.pool, B.pool]
    assert tags["trainyard:price"] == "0.450000", (
        "the price of the most expensive type, before EC2 has chosen one"
    )
    assert {(host.type, host.zone, host.price) for host in records.hosts.values()} == {
        ("g5.xlarge", "us-east-1b", 0.45)
    }
    assert records.run.last_launch is not None
    assert records.attempts[1].pool == records.run.last_launch.pool == B.pool
    (row,) = records.launch_requests
    assert (row.candidate, row.batch, row.chosen, row.capacity_pool) == (0, (1,), 1, B.pool)


def test_each_pool_keeps_its_own_refusal_and_the_next_market_is_asked(
    place: Place, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    ec2 = Ec2((FULL, NEVER), Launched(("i-1", "i-2"), D.type, D))
    kind, records = launched(place, monkeypatch, ec2)
    assert kind == "refused"
    assert [(no.candidate, no.kind) for no in records.refusals(1)] == [
        (0, RefusalKind.CAPACITY),
        (1, RefusalKind.UNSUPPORTED),
    ]
    assert log.metrics()["LaunchesRefused.capacity"] == [1.0]
    assert launch.handler({"run": "digits-1", "attempt": 1}, CONTEXT)["kind"] == "launched"
    assert ec2.asked[1][0] == [D.pool]


LAUNCHED = NOON - timedelta(minutes=3)


def instance(name: str, kind: str, zone: str) -> Instance:
    return Instance(name, kind, zone, Market.SPOT, "running", "", None, LAUNCHED, "ami-1", {})


def test_hosts_of_a_call_that_died_are_found_in_whichever_pool_they_are(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tuple(instance(name, "g5.xlarge", "us-east-1b") for name in ("i-1", "i-2"))
    ec2 = Ec2(there=there)
    kind, records = launched(place, monkeypatch, ec2, capacity_pool="2 spot pools")
    assert (kind, ec2.asked) == ("launched", [])
    assert {(host.zone, host.launched) for host in records.hosts.values()} == {("us-east-1b", LAUNCHED)}, (
        "they are billed from EC2's own time"
    )
    assert records.launch_requests[0].chosen == 1


def test_a_call_that_died_before_it_asked_is_made_again_for_the_same_pools(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Ec2(IN_B)
    launched(place, monkeypatch, first)
    again = Ec2(IN_B)
    launched(place, monkeypatch, again, capacity_pool="2 spot pools")
    assert again.asked == first.asked


def test_a_gang_that_is_not_whole_is_that_pools_refusal_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, records = launched(place, monkeypatch, Ec2(Launched(("i-1",), B.type, B)))
    assert kind == "retire"
    assert [(no.candidate, no.code, no.batch) for no in records.refusals(1)] == [(1, "Partial", 0)]
    assert [host.instance for host in records.incomplete_gang(1)] == ["i-1"]
