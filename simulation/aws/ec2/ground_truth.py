"""The ground truth of costs: what EC2 billed, independent of the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from lambdas.core.capacity import initialization
from simulation.aws.ec2.model import BY_SPOT, Instance
from trainyard.core.model.yard.billing import disk_hour

FREE_SECONDS = 3600.0
"""A spot host that EC2 reclaims within its first hour is free."""


@dataclass
class Bill:
    """Hours and dollars of instances and their disks. Disks cost from launch to termination, even while stopped,
    and once for a faster initialization."""

    hours: float = 0.0
    dollars: float = 0.0
    disk_dollars: float = 0.0
    initialization_dollars: float = 0.0
    forgiven: float = 0.0
    """Dollars in `dollars` that EC2 does not charge."""
    hours_by_market: dict[str, float] = field(default_factory=dict)


def bill(instances: Iterable[Instance], now: datetime, *, gib_month: float) -> Bill:
    """Return the bill from running to leaving the running state, by the second with a minimum of a minute each
    time.

    `gib_month` is the price of a GiB of gp3.
    """
    whole = Bill()
    for instance in instances:
        market = instance.pool.market
        for interval in instance.intervals:
            hours = interval.seconds(now) / 3600
            whole.hours += hours
            whole.dollars += hours * interval.price
            whole.hours_by_market[market] = whole.hours_by_market.get(market, 0.0) + hours
        lived = ((instance.ended or now) - instance.created).total_seconds() / 3600
        whole.disk_dollars += lived * disk_hour(instance.disk_gib, gib_month)
        whole.initialization_dollars += initialization.dollars(
            instance.snapshot_gib, instance.initialization_rate, gib_month
        )
        whole.forgiven += _forgiven(instance)
    return whole


def _forgiven(instance: Instance) -> float:
    if not instance.spot or instance.reason is not BY_SPOT or len(instance.intervals) != 1:
        return 0.0
    interval = instance.intervals[0]
    if interval.ended is None or (interval.ended - interval.began).total_seconds() >= FREE_SECONDS:
        return 0.0
    return interval.seconds(interval.ended) / 3600 * interval.price
