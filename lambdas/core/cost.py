"""What hosts cost, by market, beside what they would have cost on demand; and when the money is used up."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from lambdas.core.catalogue import Market

LEAST_SECONDS = 60.0
"""EC2 bills Linux by the second, and never less than a minute."""


@dataclass(frozen=True, slots=True)
class HostLife:
    """One host's life. `ended` is None while it lives; prices are dollars per hour."""

    instance: str
    type: str
    market: Market
    price: float
    on_demand_price: float | None
    launched: datetime
    ended: datetime | None


@dataclass(frozen=True, slots=True)
class Bill:
    """Instance hours only: disks, requests and transfer are not in it."""

    dollars: float
    hours: float
    dollars_by_market: Mapping[str, float]
    hours_by_market: Mapping[str, float]
    on_demand_dollars: float | None
    saved_dollars: float | None


def bill(hosts: Iterable[HostLife], *, now: datetime) -> Bill:
    """What these hosts cost until they ended, or until now. `on_demand_dollars` is None when a price is unknown."""
    raise NotImplementedError


def deadline(
    *, begun: datetime, hours: float, dollars: float, spent: float, dollars_per_hour: float, now: datetime
) -> datetime:
    """When the run must be over: `hours` after it was admitted, or when a gang of `dollars_per_hour` has
    used what is left of `dollars`, whichever is first. Never before `now`."""
    raise NotImplementedError
