"""The money of the whole yard: what its hosts have cost this month, and whether new runs may begin. Pure.

A host costs the same here as on the bill of its run (lambdas/core/capacity/cost.py): instance and disk by the second,
at least a minute for each start, and a charge for each disk with an initialization rate.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from trainyard.core.model.yard import promises
from trainyard.core.model.yard.billing import LEAST_SECONDS
from trainyard.core.model.yard.promises import Promise
from trainyard.protocol.ledger.yard import Money
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import dollars

WARN_AT = (50, 80, 100)
"""Percent of the monthly budget."""
SHOWN = timedelta(minutes=2)
"""EC2 lists every host of this age, and keeps listing it for an hour after its end. Charges per start are counted when
the host reaches this age."""
LEAST = timedelta(seconds=LEAST_SECONDS)


@dataclass(frozen=True)
class Billed:
    """The billed time of one host."""

    launched: datetime
    ended: datetime | None
    """None while EC2 bills the host."""
    price: float
    """Dollars an hour for the instance with its disk."""
    volume_charge: float = 0.0
    """Dollars for each disk with an initialization rate."""
    made: datetime | None = None
    """When the disk was created."""


def count_costs(money: Money | None, hosts: Iterable[Billed], now: datetime) -> Money:
    """Return the month's money with the cost of these hosts since the last count. The first count is zero."""
    month = month_of(now)
    if money is None:
        return Money(month, 0.0, now)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    since = max(money.at, begin)
    dollars = money.dollars if money.month == month else 0.0
    return Money(month, round(dollars + sum(_cost(host, since, now) for host in hosts), 6), now)


def month_dollars(money: Money | None, now: datetime) -> float:
    """Return the dollars of this month up to the last patrol."""
    return money.dollars if money is not None and money.month == month_of(now) else 0.0


def refusal(
    money: Money | None,
    budget: float | None,
    now: datetime,
    *,
    asks: float = 0.0,
    promised: Collection[Promise] = (),
) -> str | None:
    """Return why a run of at most `asks` dollars may not begin: the budget is spent, or promised to others. Return None
    while the budget lasts, and in a yard without one."""
    if budget is None:
        return None
    if month_dollars(money, now) < budget:
        left = budget - month_dollars(money, now) - promises.total(promised)
        return (
            None if asks <= left else _promised_away(month_dollars(money, now), budget, now, asks, promised)
        )
    return (
        f"the yard has spent ${month_dollars(money, now):.2f} in {month_of(now)} and may spend ${budget:.2f} a month "
        "(context monthly_dollars); running runs are not affected. Raise the budget and deploy, or start again "
        "next month"
    )


def _promised_away(
    spent: float, budget: float, now: datetime, asks: float, promised: Collection[Promise]
) -> str:
    left = max(0.0, budget - spent - promises.total(promised))
    less = (
        f"Ask for at most {dollars(left)} (limits.dollars; of a host: --hours; of a recipe: builder.hours), start"
        if left
        else "Start"
    )
    return (
        f"it may cost up to {dollars(asks)}, and {dollars(left)} are left of the yard's {dollars(budget)} a month "
        f"(context monthly_dollars): {dollars(spent)} were spent in {month_of(now)}, and these are "
        f"promised: {promises.describe_promises(promised)}. Nothing was launched, and nothing is billed. "
        f"{less} it again when one of them has ended, or ask the operator of the yard to raise the "
        f"budget (cdk deploy --all -c monthly_dollars={2 * budget:g})"
    )


def find_crossed(before: float, after: float, budget: float | None) -> int | None:
    """Return the highest percentage of the budget that was crossed between these two sums; None if none was."""
    if not budget:
        return None
    reached = [percent for percent in WARN_AT if before < budget * percent / 100 <= after]
    return max(reached, default=None)


def month_of(now: datetime) -> str:
    return now.strftime("%Y-%m")


def _cost(host: Billed, since: datetime, now: datetime) -> float:
    seconds = (min(host.ended or now, now) - max(host.launched, since)).total_seconds()
    rest = _rest_of_minute(host) if since < host.launched + SHOWN <= now else 0.0
    once = host.volume_charge if host.made and since < host.made + SHOWN <= now else 0.0
    return (max(0.0, seconds) + rest) / 3600 * host.price + once


def _rest_of_minute(host: Billed) -> float:
    """Return the seconds that EC2 bills after the end of a host which ran for less than a minute."""
    return max(0.0, (LEAST - (host.ended - host.launched)).total_seconds()) if host.ended else 0.0
