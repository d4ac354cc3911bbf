"""Release: what happens to each host when an attempt or the run is over."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from trainyard.core.model.job import Hosts
from trainyard.protocol.ledger.host import BilledHost, HostRow
from trainyard.protocol.plan import Market
from trainyard.values.lazy import dataclass


class Act(StrEnum):
    TERMINATE = "terminate"
    STOP = "stop"
    KEEP = "keep"
    POOL = "pool"


@dataclass(frozen=True)
class Disposal:
    """What to do with one host, and why."""

    instance: str
    act: Act
    reason: str


NEW = timedelta(minutes=2)
"""For so long EC2 may not show an instance that it has launched."""


def unseen(
    launched: Iterable[BilledHost], shown: Collection[str], now: datetime
) -> tuple[tuple[str, Market], ...]:
    """Hosts that were launched a moment ago and that EC2 does not show yet."""
    return tuple(
        (host.instance, host.market)
        for host in launched
        if host.ended is None and host.instance not in shown and now - host.launched < NEW
    )


def missed(launched: Iterable[HostRow], shown: Collection[str]) -> tuple[tuple[str, Market], ...]:
    """Hosts that were taken from the pool and have not the run's tag yet: they are the run's all the same, since their
    rows say so, and nobody else's."""
    return tuple(
        (host.instance, host.market)
        for host in launched
        if host.taken and host.ended is None and host.instance not in shown
    )


def dispose(
    hosts: Iterable[tuple[str, Market]],
    *,
    after: Hosts,
    keep: Collection[str],
    run_is_over: bool,
    pooled: Collection[str] = (),
) -> tuple[Disposal, ...]:
    """A host the next attempt keeps stays, and so does one in the pool; at the end of the run on-demand hosts stop if
    the job says so.

    Spot hosts of a fleet cannot be stopped: EC2 only knows how to terminate them."""
    return tuple(_dispose(host, market, after, keep, run_is_over, pooled) for host, market in hosts)


def _dispose(
    host: str, market: Market, after: Hosts, keep: Collection[str], run_is_over: bool, pooled: Collection[str]
) -> Disposal:
    if host in pooled:
        return Disposal(host, Act.POOL, "it waits in the pool for the next run")
    if not run_is_over:
        if host in keep:
            return Disposal(host, Act.KEEP, "the next attempt goes on with it")
        return Disposal(host, Act.TERMINATE, "the next attempt does not use it")
    match after:
        case Hosts.TERMINATE:
            return Disposal(host, Act.TERMINATE, "the run is over")
        case Hosts.STOP if market.can_stop:
            return Disposal(host, Act.STOP, "the run is over and the job keeps its hosts (after.hosts: stop)")
        case Hosts.STOP:
            return Disposal(host, Act.TERMINATE, "the run is over; EC2 cannot stop a fleet's spot host")
    assert_never(after)
