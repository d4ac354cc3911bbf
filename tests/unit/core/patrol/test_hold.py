"""Holds that a host requests, one row a case."""

from datetime import UTC, datetime, timedelta

import pytest

from lambdas.core.patrol.hold import Hold, NoHold, grant
from trainyard.protocol.tags import Tag
from trainyard.values import serialization

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINE = {"trainyard:run": "digits-1"}


def at(hours: float) -> datetime:
    return NOW + timedelta(hours=hours)


HOLDS: list[tuple[str, dict[str, str], datetime | None, datetime]] = [
    # name, the host's tags, asked, held until
    ("a host of the run is held", MINE, at(2), at(2)),
    ("for a day at most", MINE, at(24), at(24)),
    ("whose clock may be a little ahead", MINE, at(24.05), at(24.05)),
    ("a longer hold stays", MINE | {Tag.HOLD: serialization.timestamp(at(10))}, at(2), at(10)),
    ("a shorter one does not", MINE | {Tag.HOLD: serialization.timestamp(at(1))}, at(2), at(2)),
    ("nor one that is over", MINE | {Tag.HOLD: serialization.timestamp(at(-1))}, at(2), at(2)),
    ("nor an unreadable one", MINE | {Tag.HOLD: "tonight"}, at(2), at(2)),
    ("a release ends a hold", MINE | {Tag.HOLD: serialization.timestamp(at(10))}, None, NOW),
    ("also where there is none", MINE, None, NOW),
]
REFUSED: list[tuple[str, dict[str, str] | None, datetime | None, str]] = [
    ("more than a day at a time", MINE, at(25), "at most 24 h"),
    ("a host that is gone", None, at(2), "instance i-1 is not running"),
    ("another run's host", {"trainyard:run": "other"}, at(2), "belongs to other, not to digits-1"),
    ("nobody's", {}, None, "belongs to no run"),
]


@pytest.mark.parametrize(
    ("tags", "asked", "until"), [row[1:] for row in HOLDS], ids=[row[0] for row in HOLDS]
)
def test_until_when_a_host_is_held(tags: dict[str, str], asked: datetime | None, until: datetime) -> None:
    assert grant("i-1", "digits-1", tags, asked, NOW) == Hold(until)


@pytest.mark.parametrize(
    ("tags", "asked", "says"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_is_not_held(tags: dict[str, str] | None, asked: datetime | None, says: str) -> None:
    answer = grant("i-1", "digits-1", tags, asked, NOW)
    assert isinstance(answer, NoHold)
    assert says in answer.reason
