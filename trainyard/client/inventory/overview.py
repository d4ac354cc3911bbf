"""A yard at one moment: what it is, and what it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from trainyard.client.inventory.hosts import hosts
from trainyard.core.values.quantities import dollars

if TYPE_CHECKING:
    from trainyard.client.yard import Yard


@dataclass(frozen=True)
class Overview:
    """`dollars` are those of this month so far, as patrol has counted them; `per_hour` what the hosts cost now."""

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
    """What hosts may cost in a month before new runs are refused; None without a budget."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> Iterator[tuple[str, str]]:
        """What a person reads."""
        yield "yard", f"{self.yard} {self.version}, account {self.account}, {self.region}"
        yield "bucket", self.bucket
        yield "image", f"{self.image} (before: {self.previous_image})"
        yield "runs", ", ".join(self.runs) or "none"
        yield "hosts", f"{self.hosts}, ${self.per_hour:.2f} an hour"
        counted = self.dollars if self.month == this_month() else 0.0
        yield "budget", Budget(counted, self.monthly_dollars).in_words


def money_row(yard: Yard) -> dict[str, Any]:
    """What patrol has counted of a month: `month`, `dollars`; empty before it has."""
    table = yard.session.resource("dynamodb").Table(yard.table)
    return dict(table.get_item(Key={"pk": "patrol", "sk": "money"}).get("Item", {}))


@dataclass(frozen=True)
class Budget:
    """`counted`: the dollars of this month so far, as patrol has counted them; `monthly` what they may be, None where
    there is no limit."""

    counted: float
    monthly: float | None
    counted_at: datetime | None = None
    """When patrol counted them, once a minute."""

    @property
    def in_words(self) -> str:
        """Return what was spent, of what: `$3.20 of $1000 in 2026-11`."""
        if self.monthly is None:
            return f"{dollars(self.counted)} in {this_month()}, no budget"
        return f"{dollars(self.counted)} of {dollars(self.monthly)} in {this_month()}"

    @property
    def left(self) -> float | None:
        """What is left of it, not below 0."""
        return None if self.monthly is None else max(0.0, self.monthly - self.counted)


def budget_of(yard: Yard) -> Budget:
    """Of this month."""
    row = money_row(yard)
    if row.get("month") != this_month():
        return Budget(0.0, yard.monthly_dollars or None)
    at = datetime.fromisoformat(row["at"]) if row.get("at") else None
    return Budget(float(row["dollars"]), yard.monthly_dollars or None, at)


def this_month() -> str:
    """Return the month in UTC, as patrol writes it."""
    return f"{datetime.now(UTC):%Y-%m}"


def of(yard: Yard) -> Overview:
    """By six calls and a few pages."""
    living = [host for host in hosts(yard) if host.state in ("pending", "running")]
    money = money_row(yard)
    running = yard.session.client("stepfunctions").list_executions(
        stateMachineArn=yard.workflows["train"], statusFilter="RUNNING"
    )
    return Overview(
        yard=yard.name,
        account=yard.account,
        region=yard.session.region,
        version=yard.version,
        bucket=yard.bucket.name,
        image=yard.image(),
        previous_image=yard.image(previous=True),
        runs=tuple(each["name"] for each in running["executions"]),
        hosts=len(living),
        per_hour=sum(host.price or 0.0 for host in living),
        month=str(money.get("month", "")),
        dollars=float(money.get("dollars", 0)),
        monthly_dollars=yard.monthly_dollars or None,
    )
