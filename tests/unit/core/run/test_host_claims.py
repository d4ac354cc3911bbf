"""Claims of launched hosts: the length of a hold, its cost, and holds beyond the yard's limits."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from lambdas.core.patrol import hold
from lambdas.core.patrol.judgement import ObservedHost
from lambdas.core.run import host_claims
from lambdas.core.run.host_claims import Settled
from lambdas.core.run.slots import YardLimits, promise_of
from tests.unit.core.builders import NOON, prices
from trainyard.protocol.ledger.claim import Claim
from trainyard.protocol.ledger.yard import Money
from trainyard.protocol.plan import Market

DAY = timedelta(hours=24)
SPENT = Money("2026-11", 40.0, NOON)
HOURLY = 1.01096
"""Dollars an hour of a g5.xlarge with 100 GiB."""


def at(hours: float) -> datetime:
    return NOON + timedelta(hours=hours)


def host(name: str = "i-1", **more: Any) -> ObservedHost:
    """Return an on-demand host that ada launched an hour ago for twelve hours."""
    base = ObservedHost(
        instance=name,
        type="g5.xlarge",
        market=Market.ON_DEMAND,
        state="running",
        launched=at(-1),
        made=at(-1),
        price=1.0,
        prices=prices(),
        disk_gib=100,
        run=f"dev-{name}",
        kind="dev-host",
        ready=at(-0.9),
        lease=at(11),
        owner="ada",
    )
    return replace(base, **more)


def settle(*hosts: ObservedHost, known: tuple[Claim, ...] = (), **limits: Any) -> Settled:
    return host_claims.settle(
        hosts, known, (), limits=YardLimits(**limits), money=SPENT, most_hold=DAY, now=NOON
    )


def claim_of(name: str = "i-1", **more: Any) -> Claim:
    (written,) = settle(host(name, **more)).written
    return written


HELD: list[tuple[str, dict[str, Any], datetime]] = [
    ("a hold within a day of the start counts", {"held": at(5)}, at(5)),
    ("a longer one counts for a day from the start", {"held": at(700)}, at(23)),
    ("started again, for a day from then", {"held": at(700), "launched": at(0)}, at(24)),
    (
        "an operator's counts until the cap that the operator has set",
        {"held": at(700), "cap": at(700)},
        at(700),
    ),
    ("and no longer", {"held": at(900), "cap": at(700)}, at(700)),
    ("a cap in the past takes nothing away", {"held": at(10), "cap": at(-5)}, at(10)),
    (
        "of a run's host, for a day from when the run must have ended",
        {"held": at(700), "kind": "train", "lease": None, "run_lease": at(100)},
        at(124),
    ),
    ("a forgotten run's host, too", {"held": at(700), "kind": "train", "lease": None}, at(23)),
]


@pytest.mark.parametrize(("case", "values", "until"), HELD, ids=[case[0] for case in HELD])
def test_until_when_a_hold_counts(case: str, values: dict[str, Any], until: datetime) -> None:
    found = settle(host(**values))
    assert found.held == {"i-1": until}, case
    assert found.of(host(**values)).held == until


def test_a_yard_without_a_longest_hold_limits_none() -> None:
    assert hold.counts_until(at(9000), launched=NOON, lease=None, cap=None, most=timedelta()) == at(9000)


def test_a_host_claims_the_dollars_of_the_time_that_it_may_stay() -> None:
    until_lease, held = claim_of(), claim_of(held=at(20))
    assert (until_lease.kind, until_lease.by, until_lease.hosts) == ("held", "ada", 1)
    assert (until_lease.until, held.until) == (at(11), at(20))
    assert until_lease.dollars == pytest.approx(12 * HOURLY, abs=0.001)
    assert promise_of(held, NOON).dollars == pytest.approx(20 * HOURLY, abs=0.001)


def test_what_has_not_changed_is_not_written() -> None:
    assert settle(host(), known=(claim_of(),)).written == ()


def test_a_hold_beyond_the_dollars_that_are_left_counts_as_long_as_was_promised() -> None:
    asked = host(held=at(20))
    found = settle(asked, known=(claim_of(),), month=60.0)
    assert found.held == {"i-1": at(11)}
    assert found.written == ()
    assert settle(asked, known=(claim_of(),), month=61.0).held == {"i-1": at(20)}
    assert settle(replace(asked, cap=at(20)), known=(claim_of(),), month=60.0).held == {"i-1": at(20)}


def test_of_two_holds_that_do_not_fit_together_the_first_counts() -> None:
    both = (host("i-1", held=at(20)), host("i-2", held=at(20), launched=at(-0.9), made=at(-0.9)))
    known = (claim_of("i-1"), claim_of("i-2", launched=at(-0.9), made=at(-0.9)))
    found = settle(*both, known=known, month=73.0)
    assert found.held == {"i-1": at(20), "i-2": at(11)}


RESTARTED: dict[str, Any] = {"launched": at(-0.02), "made": at(-100), "lease": at(-90)}
BEYOND: list[tuple[str, dict[str, Any], str]] = [
    ("hosts", {"hosts": 1}, "the yard has 1 at once (most_hosts)"),
    ("dollars that are spent", {"month": 40.0}, "the yard has spent $40.00"),
    ("dollars that are promised", {"month": 60.0}, "$11.12 to ada ($11.12, dev-i-2)"),
]


@pytest.mark.parametrize(("case", "limits", "says"), BEYOND, ids=[case[0] for case in BEYOND])
def test_a_host_that_is_started_again_beyond_the_limits_is_refused(
    case: str, limits: dict[str, Any], says: str
) -> None:
    found = settle(host(**RESTARTED), host("i-2"), known=(claim_of("i-2"),), **limits)
    assert says in found.refused["i-1"], case
    assert [each.run for each in found.written] == []
    assert settle(host("i-1"), host("i-2"), known=(claim_of("i-2"),), **limits).refused == {}, "a first start"
    by_operator = host(**RESTARTED, cap=at(5))
    assert settle(by_operator, host("i-2"), known=(claim_of("i-2"),), **limits).refused == {}


def test_a_quick_restart_does_not_go_on_by_the_claim_of_the_start_before() -> None:
    before = replace(claim_of(), created=at(-100), until=at(-90))
    assert set(settle(host(**RESTARTED), known=(before,), month=45.0).refused) == {"i-1"}
    assert settle(host(**RESTARTED), known=(before,), month=60.0).refused == {}


def test_a_claim_without_a_host_is_dropped_unless_it_is_young_or_its_launch_goes_on() -> None:
    old = claim_of("i-old")
    assert settle(known=(old,)).dropped == ("dev-i-old",)
    assert settle(host("i-old", state="stopped"), known=(old,)).dropped == ("dev-i-old",)
    assert settle(host("i-old"), known=(old,)).dropped == ()
    assert settle(known=(replace(old, created=at(-0.01)),)).dropped == ()
    train = Claim(run="digits-1", hosts=2, created=at(-9), waits=False, dollars=20.0)
    assert settle(known=(train,)).dropped == ()
    goes_on = host_claims.settle(
        (), (old,), {"dev-i-old"}, limits=YardLimits(), money=None, most_hold=DAY, now=NOON
    )
    assert goes_on.dropped == ()
