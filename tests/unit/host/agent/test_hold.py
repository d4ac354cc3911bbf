"""Holds that a host requests for itself: the request on the bus, its answer, and a host's end during the request."""

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from training.host.__main__ import main
from training.host.agent.deadlines import hold
from training.host.agent.deadlines.lease import Lease
from training.host.agent.watchdog import Watchdog
from training.host.errors import HostTrouble
from training.host.metadata import Identity, InterruptionNotice
from trainyard.protocol.tags import Tag

NOW = datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=UTC)
TAGS = {
    "trainyard:run": "digits-1",
    "trainyard:attempt": "2",
    "trainyard:bus": "trainyard",
    "trainyard:role": "AROAHOST",
}


def host(**changes: str) -> Identity:
    return Identity("i-1", "us-east-1", "10.0.1.5", "ami-1", TAGS | changes)


@pytest.mark.parametrize(
    ("said", "minutes"), [("2h", 120), ("90m", 90), ("1h30m", 90), ("24h", 1440), ("1d", 1440), (" 5m ", 5)]
)
def test_how_long_is_said_in_hours_and_minutes(said: str, minutes: int) -> None:
    assert hold.span(said) == timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("25h", "a hold lasts at most 24 h"),
        ("1d1m", "a hold lasts at most 24 h"),
        ("2", "type 90m, 2h, or 1h30m"),
        ("0h", "type 90m, 2h, or 1h30m"),
        ("", "is not a time span"),
        ("-2h", "is not a time span"),
        ("two hours", "is not a time span"),
    ],
)
def test_what_is_no_time_to_hold_a_host_for(said: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HostTrouble, match=says):
        hold.span(said)
    if not said.startswith("-"):  # the command line reads -2h as an option
        assert main(["hold", said]) == 1
        assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("until", "said"), [(NOW + timedelta(hours=2), "2026-11-20T14:00:00.123Z"), (None, None)]
)
def test_a_hold_is_said_on_the_bus_as_one_of_the_run(until: datetime | None, said: str | None) -> None:
    entry = hold.entry_of(host(), until, now=NOW)
    assert (entry["Source"], entry["DetailType"], entry["EventBusName"]) == (
        "trainyard.host/AROAHOST:i-1",
        "hold",
        "trainyard",
    )
    assert json.loads(entry["Detail"]) == {
        "run": "digits-1",
        "attempt": 2,
        "instance": "i-1",
        "at": "2026-11-20T12:00:00.123Z",
        "signal": "hold",
        "until": said,
    }


def test_a_host_of_no_run_is_told_how_it_is_held_from_outside() -> None:
    nobodys = Identity("i-1", "us-east-1", "10.0.1.5", "ami-1", {"trainyard:yard": "trainyard"})
    with pytest.raises(HostTrouble, match=r"no tag trainyard:run.*aws ec2 create-tags --resources i-1"):
        hold.entry_of(nobodys, None, now=NOW)


@pytest.mark.parametrize(
    ("sentence", "held", "until", "answers"),
    [
        ("the tag has milliseconds", NOW.replace(microsecond=123000), NOW, True),
        ("a longer hold answers too", NOW + timedelta(hours=9), NOW, True),
        ("the hold of before does not", NOW - timedelta(hours=1), NOW, False),
        ("released now, by another clock", NOW + timedelta(seconds=1), None, True),
        ("not yet released", NOW + timedelta(hours=9), None, False),
    ],
)
def test_when_the_tag_answers(sentence: str, held: datetime, until: datetime | None, answers: bool) -> None:
    assert hold.is_answer(held, until, NOW) is answers, sentence


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("2026-11-20T12:00:00.123456Z", NOW),
        ("2026-11-20T12:00:00.123456", NOW),
        ("2026-11-20T13:00:00.123456+01:00", NOW),
        ("tonight", None),
        ("", None),
    ],
)
def test_the_tag_is_read_as_patrol_reads_it(text: str, until: datetime | None) -> None:
    assert hold.held_until({Tag.HOLD: text}) == until


def test_a_hold_makes_a_lease_longer_and_never_shorter() -> None:
    lease = Lease(NOW, "this host has received no order")
    assert lease.prolong(None) == lease.prolong(NOW - timedelta(hours=1)) == lease
    held = lease.prolong(NOW + timedelta(hours=2))
    assert not held.is_over(NOW + timedelta(hours=1))
    assert held.is_over(NOW + timedelta(hours=2))
    assert "the hold of this host has ended" in held.reason


class Tagged:
    """The metadata service of a host that a user holds after a while."""

    def __init__(self, *holds: str | None) -> None:
        self.holds = list(holds)

    def interruption_notice(self) -> InterruptionNotice | None:
        return None

    def tag(self, name: str) -> str | None:
        if name != "trainyard:hold":
            return None
        return self.holds.pop(0) if len(self.holds) > 1 else self.holds[0]


def watchdog(metadata: Any, lease: Lease, **more: Any) -> tuple[Watchdog, threading.Event]:
    gone = threading.Event()
    return Watchdog(metadata, lease, lambda _: gone.set(), **more), gone


def test_a_host_that_is_held_does_not_power_itself_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.host.agent.watchdog.LOOK_SECONDS", 0.01)
    now = datetime.now(UTC)
    over = Lease(now - timedelta(hours=1), "the yard has not released this host")
    ahead = (now + timedelta(hours=1)).isoformat()
    tags = Tagged(ahead)
    watched, gone = watchdog(tags, over, held=now + timedelta(hours=1))
    watched.start()
    assert not gone.wait(0.3)
    assert not watched.lease_over
    tags.holds = [(now - timedelta(minutes=5)).isoformat()]
    assert gone.wait(10), "released, and its lease had ended long ago"
    assert watched.lease_over


def test_a_hold_that_comes_later_is_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.host.agent.watchdog.LOOK_SECONDS", 0.01)
    now = datetime.now(UTC)
    watched, gone = watchdog(
        Tagged(None, None, (now + timedelta(hours=9)).isoformat()), Lease(now + timedelta(hours=1), "later")
    )
    watched.start()
    heard = threading.Event()
    while watched.lease.until < now + timedelta(hours=8):
        assert not heard.wait(0.01)
    assert not gone.is_set()
