"""Claims of launched hosts: how long each may stay, what that may cost, and which restarted hosts exceed the yard's
limits. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta

from lambdas.core.patrol import budget, hold
from lambdas.core.patrol.judgement import ObservedHost, end_of_lease
from lambdas.core.run import slots
from lambdas.core.run.slots import YardLimits, promise_of
from trainyard.core.model import submitter
from trainyard.core.model.yard.billing import disk_hour
from trainyard.protocol.ledger.claim import Claim, ClaimKind
from trainyard.protocol.ledger.yard import Money
from trainyard.protocol.storage import Storage
from trainyard.values.lazy import dataclass

RUNNING = ("pending", "running")
RESTARTED_AFTER = timedelta(minutes=2)
"""A host that started this long after its disk was created was restarted by a user."""
YOUNG = timedelta(minutes=5)
"""Patrol deletes claims of missing hosts at this age, because EC2 may list a new host late."""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """The claims and holds after one pass."""

    held: Mapping[str, datetime] = field(default_factory=dict)
    """The end of each hold, by host."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Restarted hosts that exceed the yard's limits, with the reason."""
    written: tuple[Claim, ...] = ()
    """Claims that are new or changed."""
    dropped: tuple[str, ...] = ()
    """Launches without a host."""

    def of(self, host: ObservedHost) -> ObservedHost:
        """Return the observed host in the form that verdicts need."""
        held, refused = self.held.get(host.instance), self.refused.get(host.instance)
        return replace(host, held=held, refused=refused) if held != host.held or refused else host


def settle(
    hosts: Collection[ObservedHost],
    claims: Iterable[Claim],
    open_runs: Collection[str],
    *,
    limits: YardLimits,
    money: Money | None,
    most_hold: timedelta,
    now: datetime,
) -> Settled:
    """Settle the hosts in the order of their starts: of two hosts, the later one exceeds the limits."""
    known = {claim.run: claim for claim in claims if not claim.waits}
    held = {host.instance: _longest_hold(host, most_hold) for host in hosts if host.held}
    refused: dict[str, str] = {}
    written: list[Claim] = []
    mine = [host for host in hosts if host.kind == "dev-host" and host.state in RUNNING and not host.live]
    for host in sorted(mine, key=lambda host: (host.launched, host.instance)):
        run = host.run or host.instance
        others = [claim for claim in known.values() if claim.run != run]
        before = known.get(run)
        if before and before.created < host.launched and _is_restarted(host):
            before = None
        wanted = _claim(host, held.get(host.instance))
        why = None if host.cap else _beyond(wanted, before, others, limits, money, now)
        if why and before is None and _is_restarted(host):
            refused[host.instance] = why
            continue
        if why and before:
            until = before.until or end_of_lease(host.lease, host.launched)
            held |= {host.instance: min(until, held[host.instance])} if host.instance in held else {}
            wanted = _claim(host, held.get(host.instance))
        known[wanted.run] = wanted
        written += [wanted] if wanted != before else []
    there = {host.run for host in hosts if host.state in RUNNING or host.live} | set(open_runs)
    old = (claim for claim in known.values() if claim.kind is ClaimKind.HELD and now - claim.created >= YOUNG)
    dropped = tuple(claim.run for claim in old if claim.run not in there)
    return Settled(held=held, refused=refused, written=tuple(written), dropped=dropped)


def _longest_hold(host: ObservedHost, most: timedelta) -> datetime:
    assert host.held is not None
    return hold.counts_until(host.held, launched=host.launched, lease=host.run_lease, cap=host.cap, most=most)


def _claim(host: ObservedHost, held: datetime | None) -> Claim:
    ends = end_of_lease(host.lease, host.launched)
    until = max(ends, held or ends)
    hourly = host.price + disk_hour(host.disk_gib or 0, host.prices.gib_month(Storage.DISK))
    return Claim(
        run=host.run or host.instance,
        hosts=1,
        created=host.launched,
        waits=False,
        kind=ClaimKind.HELD,
        dollars=round((until - host.launched).total_seconds() / 3600 * hourly, 4),
        by=host.owner or submitter.UNKNOWN,
        per_hour=round(hourly, 6),
        until=until,
    )


def _beyond(
    wanted: Claim,
    before: Claim | None,
    others: Collection[Claim],
    limits: YardLimits,
    money: Money | None,
    now: datetime,
) -> str | None:
    """Return why the yard has no slot, or no dollars, for what the host claims beyond its earlier claim."""
    if before is None and (full := slots.why_full(wanted, others, limits)):
        return full
    asks = promise_of(wanted, now).dollars
    if before and asks <= promise_of(before, now).dollars:
        return None
    promised = [promise_of(claim, now) for claim in others]
    return budget.refusal(money, limits.month or None, now, asks=asks, promised=promised)


def _is_restarted(host: ObservedHost) -> bool:
    return host.made is not None and host.launched - host.made >= RESTARTED_AFTER
