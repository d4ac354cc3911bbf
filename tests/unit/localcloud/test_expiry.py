"""Expired data, and the warning about too few file descriptors."""

import resource
from collections.abc import Sequence

import pytest

from localcloud.base import descriptors
from localcloud.server.expiry import DAY, EVENTS, EXECUTIONS, expired_executions, retention_start

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("times", "days", "expected"),
    [
        pytest.param([], None, 0, id="nothing was written"),
        pytest.param([1.0, 2.0], None, 0, id="kept for ever"),
        pytest.param([1.0, 2.0], 30, (NOW - 30 * DAY) * 1000, id="its retention"),
        pytest.param(range(EVENTS), None, 0, id="as many as there is room for"),
        pytest.param(range(EVENTS + 5), None, 5, id="the newest of too many"),
    ],
)
def test_a_log_group_keeps_what_is_young_and_has_room(
    times: Sequence[float], days: int | None, expected: float
) -> None:
    assert retention_start(times, days, NOW) == expected


def test_executions_go_after_90_days_and_when_there_are_too_many() -> None:
    stopped = {name: f"2027-01-15T07:{name // 60:02}:{name % 60:02}.000Z" for name in range(EXECUTIONS + 2)}
    assert sorted(expired_executions(stopped, NOW)) == [0, 1]
    some = {"old": "2026-10-17T07:59:59.000Z", "young": "2026-10-17T08:00:00.000Z"}
    assert expired_executions(some, NOW) == ["old"]


@pytest.mark.parametrize(
    ("hard", "is_enough"), [(256, False), (1023, False), (1024, True), (resource.RLIM_INFINITY, True)]
)
def test_too_low_a_limit_is_said(monkeypatch: pytest.MonkeyPatch, hard: int, is_enough: bool) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (hard, hard))
    said = descriptors.shortage()
    assert (said is None) is is_enough
    assert said is None or ("\n" not in said and "`sudo prlimit --pid $$ --nofile=1024:1024`" in said)
