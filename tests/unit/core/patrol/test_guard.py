"""The guard: the number of hosts that one pass may act on, their order, and outages of metrics."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from lambdas.core.patrol import guard
from lambdas.core.patrol.guard import Passed
from lambdas.core.patrol.verdict import Earlier, Keep, Stop, Terminate, Verdict, Warn
from tests.unit.core.builders import NOON, after
from tests.unit.core.patrol.verdict_cases import Case
from trainyard.core.model.yard.policy import Policy
from trainyard.protocol.verdicts import Cause, Word

CENTS_A_METRIC = 0.001
"""CloudWatch's price of one metric in a GetMetricData (us-east-1)."""
IDLE = Stop(reason="idle", cause=Cause.IDLE, since=NOON)
ORPHAN = Terminate(reason="orphan", cause=Cause.ORPHAN, since=NOON)


def names(count: int) -> list[str]:
    return [f"i-{n:04d}" for n in range(count)]


def pass_of(
    verdicts: Mapping[str, Verdict],
    *,
    hosts: int,
    asked: int = 0,
    missing: int = 0,
    earlier: dict[str, Earlier] | None = None,
) -> Passed:
    return guard.review(
        verdicts, earlier=earlier or {}, hosts=hosts, asked=asked, missing=missing, now=after(60)
    )


@pytest.mark.parametrize(
    ("hosts", "idle", "acts"),
    [
        (1, 1, 1),  # the smallest yard may act
        (3, 3, 3),
        (10, 4, 3),
        (15, 4, 3),
        (100, 20, 20),
        (100, 21, 20),
        (10_000, 10_000, 2000),
    ],
)
def test_one_pass_acts_on_three_hosts_or_a_fifth(hosts: int, idle: int, acts: int) -> None:
    found = pass_of(dict.fromkeys(names(idle), IDLE), hosts=hosts, asked=idle)
    assert len(found.acts) == acts
    assert len(found.deferred) == idle - acts
    assert bool(found.warnings) == (idle > acts)


def test_what_the_next_patrol_says_again_is_done_however_many_they_are() -> None:
    every = dict.fromkeys(names(100), IDLE)
    first = pass_of(every, hosts=100, asked=100)
    again = {host: Earlier(IDLE.word, NOON) for host in first.deferred}
    second = pass_of(first.deferred, hosts=100, asked=80, earlier=again)
    assert (len(first.acts), len(second.acts), second.deferred, second.warnings) == (20, 80, {}, ())


def test_a_patrol_within_the_same_half_minute_is_no_second_look() -> None:
    again = {host: Earlier(IDLE.word, after(55)) for host in names(100)}
    assert len(pass_of(dict.fromkeys(names(100), IDLE), hosts=100, earlier=again).acts) == 20


def test_another_verdict_than_before_is_a_first_look() -> None:
    before = {host: Earlier(Word("keep-busy"), NOON) for host in names(100)}
    assert len(pass_of(dict.fromkeys(names(100), IDLE), hosts=100, earlier=before).acts) == 20


def test_a_whole_gang_of_orphans_ends_at_its_second_look() -> None:
    before = {host: Earlier(Word("warn-orphan"), NOON) for host in names(100)}
    found = pass_of(dict.fromkeys(names(100), ORPHAN), hosts=100, earlier=before)
    assert (len(found.acts), found.warnings) == (100, ())


@pytest.mark.parametrize(
    ("asked", "missing", "outage"),
    [
        (10, 10, True),
        (10, 6, True),
        (10, 5, False),
        (2, 2, True),
        (2, 1, False),
        (1, 1, False),
        (0, 0, False),
    ],
)
def test_metrics_missing_of_more_than_half_are_an_outage(asked: int, missing: int, outage: bool) -> None:
    verdicts: dict[str, Verdict] = {"i-idle": IDLE, "i-orphan": ORPHAN}
    found = pass_of(verdicts, hosts=20, asked=asked, missing=missing)
    assert set(found.acts) == ({"i-orphan"} if outage else {"i-idle", "i-orphan"})
    assert any("outage" in warning for warning in found.warnings) == outage


def test_an_outage_stops_nothing_of_what_is_unknown_for_too_long_either() -> None:
    unknown = Stop(reason="unknown", cause=Cause.UNKNOWN, since=NOON)
    assert not pass_of(dict.fromkeys(names(5), unknown), hosts=5, asked=5, missing=5).acts


def test_keeping_and_warning_is_no_act() -> None:
    verdicts: dict[str, Verdict] = {"i-1": Keep(reason="busy"), "i-2": Warn(reason="unknown")}
    assert pass_of(verdicts, hosts=2) == Passed()


def test_every_host_has_its_turn_once_in_a_sixth_of_the_window() -> None:
    policy = {"window_minutes": 30.0}
    for name in names(50):
        host = Case(name, "", "", {"instance": name}, policy).host()
        turns = [n for n in range(15) if guard.is_due(host, NOON + timedelta(minutes=n))]
        assert len(turns) == 3
        assert turns[1] - turns[0] == turns[2] - turns[1] == 5


def test_turns_are_shared_out() -> None:
    hosts = [Case(name, "", "", {"instance": name}).host() for name in names(1000)]
    counts = [sum(guard.is_due(host, NOON + timedelta(minutes=n)) for host in hosts) for n in range(5)]
    assert sum(counts) == 1000
    assert max(counts) < 260


def test_who_waits_for_a_second_look_is_looked_at_at_once() -> None:
    host = Case("", "", "", {"earlier": Earlier(Word("stop-idle"), NOON)}).host()
    assert all(guard.is_due(host, NOON + timedelta(minutes=n)) for n in range(10))


@pytest.mark.parametrize(("window", "cents"), [(30, 0.288), (60, 0.144), (10, 0.72), (6, 1.44)])
def test_looking_costs_less_than_a_cent_a_day_from_ten_minutes_on(window: float, cents: float) -> None:
    looks_a_day = 24 * 60 / guard.look_every(Policy(window_minutes=window))
    assert looks_a_day * CENTS_A_METRIC == pytest.approx(cents)


def test_a_tag_is_written_when_its_word_changes_and_hosts_of_one_value_together() -> None:
    verdicts: dict[str, Verdict] = {
        "i-1": Keep(reason="x"),
        "i-2": Keep(reason="y"),
        "i-3": IDLE,
        "i-4": IDLE,
    }
    earlier = {"i-2": Earlier(Word("keep"), NOON), "i-4": Earlier(Word("keep"), NOON)}
    assert guard.tag_changes(verdicts, earlier, after(60)) == {
        "keep 2026-11-20T12:01:00.000Z": ["i-1"],
        "stop-idle 2026-11-20T12:00:00.000Z": ["i-3", "i-4"],
    }
    assert guard.find_changed(verdicts, earlier, acts=["i-2"]) == ["i-1", "i-2", "i-3", "i-4"]
