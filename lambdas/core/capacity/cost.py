"""The cost of hosts by market, compared with on demand, and the deadline that the money sets."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from trainyard.core.model.yard.billing import billed_hours, host_dollars
from trainyard.protocol.ledger.host import BilledHost
from trainyard.values.lazy import dataclass


@dataclass(frozen=True)
class Bill:
    """The bill for instances, root disks, initialization rates and GET requests of streamed data; storage, transfer and
    other requests are not included."""

    dollars: float
    hours: float
    dollars_by_market: Mapping[str, float]
    hours_by_market: Mapping[str, float]
    on_demand_dollars: float | None
    saved_dollars: float | None


def bill(hosts: Iterable[BilledHost], *, now: datetime) -> Bill:
    """Return the cost of these hosts until their end, or until now. `on_demand_dollars` is None if a price is
    unknown."""
    billed = [(host, hours_of(host, now=now)) for host in hosts]
    dollars_by_market: dict[str, float] = {}
    hours_by_market: dict[str, float] = {}
    for host, hours in billed:
        market = host.market.value
        dollars_by_market[market] = dollars_by_market.get(market, 0.0) + _dollars(host, now, host.price)
        hours_by_market[market] = hours_by_market.get(market, 0.0) + hours
    dollars = sum(dollars_by_market.values())
    known = all(host.on_demand_price is not None for host, _ in billed)
    on_demand = (
        sum(_dollars(host, now, host.on_demand_price or 0.0) for host, hours in billed) if known else None
    )
    return Bill(
        dollars=_cents(dollars),
        hours=_cents(sum(hours_by_market.values())),
        dollars_by_market={market: _cents(value) for market, value in dollars_by_market.items()},
        hours_by_market={market: _cents(value) for market, value in hours_by_market.items()},
        on_demand_dollars=None if on_demand is None else _cents(on_demand),
        saved_dollars=None if on_demand is None else _cents(on_demand - dollars),
    )


def hours_of(host: BilledHost, *, now: datetime) -> float:
    """Return the billed hours of one host."""
    return billed_hours(_seconds(host, now))


def dollars_of(host: BilledHost, *, now: datetime) -> float:
    """Return the dollars of one host."""
    return _cents(_dollars(host, now, host.price))


def deadline(
    *, begun: datetime, hours: float, dollars: float, spent: float, dollars_per_hour: float, now: datetime
) -> datetime:
    """Return the deadline of a run: `hours` after its admission, or when a gang of `dollars_per_hour` has spent the
    rest of `dollars`, whichever comes first. It may lie in the past, because a deadline that moved along with `now`
    would never be reached."""
    by_hours = begun + timedelta(hours=hours)
    if dollars_per_hour <= 0:
        return by_hours
    hours_left = min(
        max(0.0, dollars - spent) / dollars_per_hour, hours
    )  # a cent an hour must not overflow the calendar
    return min(by_hours, now + timedelta(hours=hours_left))


def _dollars(host: BilledHost, now: datetime, price: float) -> float:
    return host_dollars(
        _seconds(host, now),
        price,
        disk_gib=host.disk_gib,
        gib_month=host.gib_month,
        volume_charge=host.charges,
    )


def _seconds(host: BilledHost, now: datetime) -> float:
    return ((host.ended or now) - host.launched).total_seconds()


def _cents(value: float) -> float:
    """Round to a thousandth of a cent, because sums of binary fractions look like errors."""
    return round(value, 5)
