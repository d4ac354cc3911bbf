"""The yard's own metrics: each event counts once, in the call that wrote it to the ledger."""

from datetime import timedelta
from typing import Any

import pytest

from lambdas import environment
from lambdas.aws.ec2 import fleet
from lambdas.aws.ec2.fleet import Launched
from lambdas.core.capacity.placement import FleetRefusal
from lambdas.core.run.conclusion.steps import seconds_lost
from lambdas.workflows.train import launch
from lambdas.workflows.train.launch import capacity_pools
from lambdas.workflows.train.launch.request import LaunchSettings
from tests.support.recorded import CONTEXT
from tests.support.records import AT
from tests.unit.core.builders import NOON, candidate
from tests.unit.workflows.conftest import TOPIC, Log, Place
from trainyard.protocol.ledger.attempt import AttemptRow
from trainyard.protocol.plan import Plan, RefusalKind
from trainyard.values import serialization

NO_ROOM = FleetRefusal(RefusalKind.CAPACITY, "InsufficientInstanceCapacity", "no room")


def launches(place: Place, monkeypatch: pytest.MonkeyPatch, answer: Any) -> dict[str, Any]:
    """Run Launch of the second attempt, which lost its hosts, with one capacity pool in its plan and this answer."""
    for name in place.hosts:
        place.row(f"host#{name}", {"ended": AT})
    place.row("attempt#0001", {"ending": "lost", "ended": AT})
    plan = Plan((candidate(),), (), "ami-1", 2, 99.0, NOON, "", 0)
    place.row("plan", serialization.to_json(plan))
    place.row(
        "run",
        {"attempt": 2, "state": "Launch", "deadline": serialization.timestamp(NOON + timedelta(hours=2))},
    )
    yard = LaunchSettings(
        yard="trainyard",
        table_name="ledger",
        bucket_name="bucket",
        topic_arn=TOPIC,
        launch_templates=("0=lt-0:1",),
    )
    monkeypatch.setattr(environment, "read", lambda _: yard)
    monkeypatch.setattr(launch, "clock", lambda: NOON)
    monkeypatch.setattr(fleet, "launch", lambda *given, **more: answer)
    said: dict[str, Any] = launch.handler({"run": "digits-1", "attempt": 2}, CONTEXT)
    return said


def test_hosts_are_counted_once_however_often_launch_is_called(
    place: Place, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    there = Launched(("i-1", "i-2"), candidate().type, candidate())
    assert launches(place, monkeypatch, there)["kind"] == "launched"
    assert log.metrics() == {"HostsLaunched": [2.0], "Recoveries": [1.0]}
    launch.handler({"run": "digits-1", "attempt": 2}, CONTEXT)
    assert log.metrics() == {}


def test_a_refusal_is_counted_by_its_kind_and_its_line_names_the_pool(
    place: Place, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    assert launches(place, monkeypatch, (NO_ROOM,))["kind"] == "refused"
    (line,) = (line for line in log.lines() if "_aws" in line)
    assert line["LaunchesRefused"] == [1.0]
    told = {key: line[key] for key in ("service", "kind", "pool", "code", "run", "attempt", "function_name")}
    assert told == {
        "service": "trainyard",
        "kind": "capacity",
        "pool": candidate().pool,
        "code": "InsufficientInstanceCapacity",
        "run": "digits-1",
        "attempt": 2,
        "function_name": CONTEXT.function_name,
    }
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["kind", "service"]]


def test_a_ledger_that_takes_nothing_counts_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    monkeypatch.setattr(capacity_pools, "host_rows", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        launches(place, monkeypatch, (NO_ROOM,))
    assert log.metrics() == {"FunctionFailures": [1.0]}


def attempt(number: int, started: float | None, ended: float | None) -> AttemptRow:
    """Times in minutes after noon."""
    began, over = (None if at is None else NOON + timedelta(minutes=at) for at in (started, ended))
    return AttemptRow(attempt=number, candidate={}, hosts=(), launched=NOON, started=began, ended=over)


@pytest.mark.parametrize(
    ("attempts", "minutes"),
    [
        pytest.param([attempt(1, 1, 10)], 0, id="nothing was lost"),
        pytest.param([attempt(1, 1, 10), attempt(2, 13, 20)], 3, id="until the next program started"),
        pytest.param(
            [attempt(3, 30, 40), attempt(1, 1, 10), attempt(2, None, 14)], 20, id="one between that never did"
        ),
        pytest.param([attempt(1, 1, 10), attempt(2, None, 14)], 4, id="the last never did"),
        pytest.param([attempt(1, 1, 10), attempt(2, None, None)], 0, id="not known yet"),
    ],
)
def test_seconds_lost_are_those_between_programs(attempts: list[AttemptRow], minutes: float) -> None:
    assert seconds_lost(attempts) == 60 * minutes


def test_an_interruption_is_notified_once_however_often_launch_is_called(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.row("attempt#0001", {"reason": "EC2 takes i-1 back in two minutes", "checkpointed": 7})
    for _ in range(2):
        launches(place, monkeypatch, [NO_ROOM])
    (sent,) = place.notifications.published
    assert sent.subject == "Trainyard trainyard: digits-1 was interrupted"
    assert sent.text.splitlines() == [
        "digits-1 continues with attempt 2, once it has hosts.",
        "Reason: EC2 takes i-1 back in two minutes",
        "Last whole checkpoint: step 7.",
    ]
