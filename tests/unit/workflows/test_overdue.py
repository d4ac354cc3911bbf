"""A silent gang: the observations and decisions of the check of an overdue state."""

from datetime import timedelta
from typing import Any

import boto3
import pytest

from lambdas.core.run.recovery import Trouble
from lambdas.workflows.train import await_hosts
from tests.support.recorded import CONTEXT
from tests.support.records import AT
from tests.unit.core.builders import NOON, after
from tests.unit.workflows.conftest import Place
from trainyard.values import serialization

LEFT: dict[str, Any] = {"stopped": 1, "stopped_at": AT, "why": "peer"}


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(await_hosts, "clock", lambda: after(200))


def look() -> dict[str, Any]:
    return await_hosts.handler({"run": "digits-1", "attempt": 1, "overdue": "Train"}, CONTEXT)


def found() -> Trouble:
    said = look()
    assert said["kind"] == "error"
    return Trouble.caught(said["error"], said["cause"])


def test_hosts_that_hang_together_are_all_replaced(place: Place) -> None:
    trouble = found()
    assert (trouble.error, trouble.lost, trouble.step) == ("HostLost", (), 7)
    assert trouble.reason == (
        f"none of the hosts {place.chief}, {place.worker} has sent a signal for 150 s: they hang or are disconnected, "
        "although EC2 reports them as running"
    )
    assert place.ledger.require("digits-1").attempts[1].ending == "lost"


SIGNS = [
    # name, seconds before the look, whether the attempt continues
    ("left a moment ago: the bus or the ledger was down", 10, True),
    ("left with the last event that came: the host is lost", 151, False),
    ("left by a clock that is half a minute ahead", 121, False),
]


@pytest.mark.parametrize(("ago", "goes_on"), [row[1:] for row in SIGNS], ids=[str(row[0]) for row in SIGNS])
def test_a_sign_of_life_in_the_bucket_keeps_an_attempt_whose_events_are_missing(
    place: Place, ago: int, goes_on: bool
) -> None:
    place.leaves(place.chief, "progress", step=8, at=serialization.timestamp(after(200 - ago)))
    said = look()
    assert said["kind"] == ("alive" if goes_on else "error")
    if goes_on:
        assert said["heartbeat_seconds"] == 150
        assert place.ledger.require("digits-1").attempts[1].ending is None


def test_news_that_reached_the_ledger_while_the_look_was_retried_keep_it_too(place: Place) -> None:
    place.row("run", {"progress": {"attempt": 1, "step": 8, "at": serialization.timestamp(after(190))}})
    assert look()["kind"] == "alive"


def test_a_sign_of_life_counts_for_nothing_once_a_host_has_left_or_is_gone(place: Place) -> None:
    place.leaves(place.chief, "progress", step=8, at=serialization.timestamp(after(190)))
    boto3.client("ec2").terminate_instances(InstanceIds=[place.worker])
    assert found().error == "HostLost"


def test_a_sign_of_life_outlasts_no_deadline(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    late = NOON + timedelta(hours=3)
    monkeypatch.setattr(await_hosts, "clock", lambda: late)
    place.leaves(place.chief, "progress", step=8, at=serialization.timestamp(late))
    assert found().error == "LimitReached"


def test_a_finish_of_which_no_event_came_is_no_failure(place: Place) -> None:
    place.leaves(place.chief, "finished", step=20)
    said = look()
    assert (said["kind"], said["step"]) == ("finished", 20)
    assert look() == said


def test_a_finish_that_was_heard_and_not_passed_on_is_none_either(place: Place) -> None:
    place.row(
        "attempt#0001", {"ending": "finished", "ended": AT, "reason": "the program finished", "to_step": 9}
    )
    assert look() == {"kind": "finished", "reason": "the program finished", "step": 9}


def test_a_programs_own_error_ends_the_run_however_late_it_is_heard(place: Place) -> None:
    place.leaves(
        place.chief, "failed", kind="program", reason="ValueError", tail="", exit_code=1, final=False
    )
    assert found().error == "ProgramFailed"


def test_a_gang_that_has_left_goes_on_on_its_hosts(place: Place) -> None:
    place.leaves(place.chief, "stopped", why="hangs", step=7)
    place.leaves(place.worker, "stopped", why="peer", step=None)
    trouble = found()
    assert (trouble.error, trouble.all_well, trouble.lost) == ("ProgramHangs", True, ())


def test_hosts_that_nobody_has_asked_to_leave_are_not_kept(place: Place) -> None:
    """The chief must be replaced; the worker would still be in this attempt when the next one starts."""
    place.leaves(place.chief, "failed", kind="host", reason="no disk", tail="", exit_code=None, final=False)
    trouble = found()
    assert (trouble.error, trouble.lost) == ("StartFailed", ())


def test_hosts_that_have_left_are(place: Place) -> None:
    place.row(f"host#{place.worker}", LEFT)
    place.leaves(place.chief, "failed", kind="host", reason="no disk", tail="", exit_code=None, final=False)
    trouble = found()
    assert (trouble.error, trouble.lost) == ("StartFailed", (place.chief,))


def test_a_host_that_is_gone_is_named(place: Place) -> None:
    place.row(f"host#{place.worker}", LEFT)
    boto3.client("ec2").terminate_instances(InstanceIds=[place.chief])
    trouble = found()
    assert (trouble.error, trouble.lost) == ("HostLost", (place.chief,))
    assert "EC2 reports" in trouble.reason


def test_what_another_run_is_said_to_have_left_is_not_heard(place: Place) -> None:
    place.leaves(place.chief, "finished", step=20, run="other")
    place.leaves(place.worker, "finished", step=20)
    assert found().error == "HostLost"


def test_a_run_at_its_cap_ends_as_such(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    late = NOON + timedelta(hours=3)
    monkeypatch.setattr(await_hosts, "clock", lambda: late)
    assert found().error == "LimitReached"
