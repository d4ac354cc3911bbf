"""The state of a yard at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from trainyard.client.deployment import settings_of
from trainyard.client.inventory.hosts import hosts
from trainyard.core.model.yard import promises
from trainyard.core.model.yard.promises import Promise
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.claim import ClaimKind
from trainyard.protocol.ledger.yard import Money
from trainyard.values.quantities import dollars

if TYPE_CHECKING:
    from trainyard.client.yard import Yard


@dataclass(frozen=True)
class Overview:
    """The state of a yard."""

    yard: str
    account: str
    region: str
    version: str
    bucket: str
    image: str
    previous_image: str
    runs: tuple[str, ...]
    hosts: int
    per_hour: float
    month: str
    dollars: float
    monthly_dollars: float | None
    """The cost of hosts in a month after which new runs are refused; None without a budget."""
    settings: Mapping[str, str]
    """The settings that differ from the defaults, in the format of `-c`."""
    promised: tuple[Promise, ...] = ()
    """The most that runs and launched hosts may still cost."""
    model_url: str = ""
    """The URL of the function for predictions; empty without one."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield the rows for users."""
        yield "yard", f"{self.yard} {self.version}, account {self.account}, {self.region}"
        yield "bucket", self.bucket
        yield "image", f"{self.image} (before: {self.previous_image})"
        yield "runs", ", ".join(self.runs) or "none"
        yield "hosts", f"{self.hosts}, ${self.per_hour:.2f} an hour"
        counted = self.dollars if self.month == this_month() else 0.0
        yield "budget", Budget(counted, self.monthly_dollars).described
        yield (
            "settings",
            " ".join(f"{key}={value}" for key, value in sorted(self.settings.items())) or "defaults",
        )
        yield "promised", promises.describe_promises(self.promised)
        if self.model_url:
            yield "model URL", self.model_url


def money_of(yard: Yard) -> Money | None:
    """Return the month's cost as counted by patrol, or None before its first pass."""
    table = yard.session.resource("dynamodb").Table(yard.table)
    item = table.get_item(Key={"pk": "patrol", "sk": "money"}).get("Item")
    return reading.read(Money, item) if item else None


@dataclass(frozen=True)
class Budget:
    """The budget of this month."""

    counted: float
    """The dollars of this month, as counted by patrol."""
    monthly: float | None
    """The budget; None without one."""
    counted_at: datetime | None = None
    """When patrol counted the cost, which it does once a minute."""
    promised: tuple[Promise, ...] = ()

    @property
    def described(self) -> str:
        """Return the cost and the budget, `$3.20 of $1000 in 2026-11`, and the promised money."""
        also = f"; promised are {promises.describe_promises(self.promised)}" if self.promised else ""
        if self.monthly is None:
            return f"{dollars(self.counted)} in {this_month()}, no budget{also}"
        return f"{dollars(self.counted)} of {dollars(self.monthly)} in {this_month()}{also}"

    @property
    def remaining(self) -> float | None:
        """Return the money that is neither spent nor promised, at least 0."""
        if self.monthly is None:
            return None
        return max(0.0, self.monthly - self.counted - promises.total(self.promised))


def budget_of(yard: Yard) -> Budget:
    """Return the budget of this month."""
    money = money_of(yard)
    if money is None or money.month != this_month():
        return Budget(0.0, yard.monthly_dollars or None, promised=promised_by(yard))
    return Budget(money.dollars, yard.monthly_dollars or None, money.at, promised_by(yard))


def promised_by(yard: Yard) -> tuple[Promise, ...]:
    """Return the money that runs and launched hosts may still cost, by their claims in the ledger, the largest first.
    For a run with hosts, the price of its hosts and its deadline limit the amount."""
    now, found = datetime.now(UTC), []
    for claim in yard.claims():
        if not claim.promises_dollars:
            continue
        if claim.kind is ClaimKind.TRAIN:
            row = yard.row(claim.run)
            price, until = (row.price, row.deadline) if row else (None, None)
        else:
            price, until = claim.per_hour, claim.until
        left = promises.remaining(claim.dollars, price, until, now)
        found.append(Promise(run=claim.run, by=claim.by, dollars=round(left, 4)))
    return tuple(sorted(found, key=lambda each: (-each.dollars, each.run)))


def this_month() -> str:
    """Return the month in UTC, in patrol's format."""
    return f"{datetime.now(UTC):%Y-%m}"


def read_overview(yard: Yard) -> Overview:
    """Return the state of a yard, with seven calls and some pages."""
    living = [host for host in hosts(yard) if host.state in ("pending", "running")]
    money = money_of(yard)
    running = yard.session.client("stepfunctions").list_executions(
        stateMachineArn=yard.workflows["train"], statusFilter="RUNNING"
    )
    return Overview(
        yard=yard.name,
        model_url=yard.model_url,
        account=yard.account,
        region=yard.session.region,
        version=yard.version,
        bucket=yard.bucket.name,
        image=yard.image(),
        previous_image=yard.image(previous=True),
        runs=tuple(each["name"] for each in running["executions"]),
        hosts=len(living),
        per_hour=sum(host.price or 0.0 for host in living),
        month=money.month if money else "",
        dollars=money.dollars if money else 0.0,
        monthly_dollars=yard.monthly_dollars or None,
        settings=settings_of(yard.session, yard.name),
        promised=promised_by(yard),
    )
