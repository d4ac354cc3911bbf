"""Release: what happens to each host at the end of an attempt or run."""

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
    """The decision about one host, with its reason."""

    instance: str
    act: Act
    reason: str


NEW = timedelta(minutes=2)
"""How long EC2 may hide an instance that it has launched."""


def find_unseen(
    launched: Iterable[BilledHost], shown: Collection[str], now: datetime
) -> tuple[tuple[str, Market], ...]:
    """Return the hosts that EC2 launched a moment ago and does not list yet."""
    return tuple(
        (host.instance, host.market)
        for host in launched
        if host.ended is None and host.instance not in shown and now - host.launched < NEW
    )


def find_missed(launched: Iterable[HostRow], shown: Collection[str]) -> tuple[tuple[str, Market], ...]:
    """Return the hosts from the warm pool that lack the run's tag so far. Their rows make them hosts of the run."""
    return tuple(
        (host.instance, host.market)
        for host in launched
        if host.claimed_from and host.ended is None and host.instance not in shown
    )


def dispose(
    hosts: Iterable[tuple[str, Market]],
    *,
    after: Hosts,
    keep: Collection[str],
    run_is_over: bool,
    pooled: Collection[str] = (),
    faulty: Collection[str] = (),
) -> tuple[Disposal, ...]:
    """Decide about each host. Hosts for the next attempt and for the warm pool stay. At the end of a run on-demand
    hosts stop if the job says so. EC2 can only terminate spot hosts of a fleet. A host with a fault of its hardware
    never stays."""
    return tuple(
        Disposal(host, Act.TERMINATE, "its hardware has failed")
        if host in faulty
        else _dispose(host, market, after, keep, run_is_over, pooled)
        for host, market in hosts
    )


def _dispose(
    host: str, market: Market, after: Hosts, keep: Collection[str], run_is_over: bool, pooled: Collection[str]
) -> Disposal:
    if host in pooled:
        return Disposal(host, Act.POOL, "it waits in the warm pool for the next run")
    if not run_is_over:
        if host in keep:
            return Disposal(host, Act.KEEP, "the next attempt uses it")
        return Disposal(host, Act.TERMINATE, "the next attempt does not use it")
    match after:
        case Hosts.TERMINATE:
            return Disposal(host, Act.TERMINATE, "the run has ended")
        case Hosts.STOP if market.can_stop:
            return Disposal(
                host, Act.STOP, "the run has ended, and the job keeps its hosts (after.hosts: stop)"
            )
        case Hosts.STOP:
            return Disposal(host, Act.TERMINATE, "the run has ended; EC2 cannot stop a fleet's spot host")
    assert_never(after)
