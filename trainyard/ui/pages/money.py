"""What the runs of a month have cost, by day and by who asked for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from trainyard.client import Yard
from trainyard.client.inventory import overview
from trainyard.client.runs.listing import ListedRun
from trainyard.client.runs.spending import added
from trainyard.ui.desk import Desk
from trainyard.ui.pages.page import Page, Seen

FRESH = 30.0
MOST = 10_000


@dataclass(frozen=True)
class Day:
    """`part` is its share of the dearest day, in percent."""

    number: int
    runs: int
    dollars: float
    part: float


@dataclass(frozen=True)
class Month:
    """`counted` is what patrol has counted of this one; None of others."""

    begin: datetime
    runs: tuple[ListedRun, ...]
    counted: float | None


@dataclass(frozen=True)
class Money(Page):
    """Of the month that begins then; of this one where it is None."""

    begin: datetime | None = None

    name, title, parts = "money", "Money", ("month",)

    @property
    def query(self) -> dict[str, str]:
        return {"month": f"{self.begin:%Y-%m}"} if self.begin else {}

    async def look(self, desk: Desk) -> Seen:
        begin = self.begin or _first(datetime.now(UTC))
        month = await desk.ask(("money", begin), lambda yard: _month(yard, begin), FRESH)
        return {
            "month": month,
            "total": sum(run.dollars or 0.0 for run in month.runs),
            "days": list(_days(month)),
            "users": added(month.runs, "user"),
            "jobs": added(month.runs, "job"),
            "before": _first(begin - timedelta(days=1)),
            "after": _after(begin) if _after(begin) <= datetime.now(UTC) else None,
        }


def _month(yard: Yard, begin: datetime) -> Month:
    end = _after(begin)
    runs = tuple(run for run in yard.list(since=begin, limit=MOST) if run.created < end)
    return Month(begin, runs, overview.money_of(yard) if datetime.now(UTC) < end else None)


def _days(month: Month) -> Iterator[Day]:
    sums = {int(day[-2:]): (count, total) for day, count, total in added(month.runs, "day")}
    most = max((total for _, total in sums.values()), default=0.0) or 1.0
    for number in range(1, (_after(month.begin) - month.begin).days + 1):
        count, total = sums.get(number, (0, 0.0))
        yield Day(number, count, total, round(100 * total / most, 2))


def _first(at: datetime) -> datetime:
    return at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _after(begin: datetime) -> datetime:
    return (begin + timedelta(days=31)).replace(day=1)
