"""The cost of a month's runs, by day, by user and by job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from trainyard.client import Yard
from trainyard.client.inventory import overview
from trainyard.client.inventory.overview import Budget
from trainyard.client.runs.listing import ListedRun
from trainyard.client.runs.spending import Spent, list_billed, sum_by
from trainyard.ui.cache import Cache
from trainyard.ui.pages.page import Page, Seen

FRESH = 30.0
MOST = 10_000


@dataclass(frozen=True)
class Day:
    """The cost of one day."""

    number: int
    runs: int
    dollars: float
    part: float
    """Percent of the most expensive day."""


@dataclass(frozen=True)
class Month:
    """The runs of a month."""

    begin: datetime
    runs: tuple[ListedRun, ...]
    budget: Budget | None
    """None except for the current month."""


@dataclass(frozen=True)
class Money(Page):
    """The page of the month that starts at `begin`; by default, of the current month."""

    begin: datetime | None = None

    name, title, parts = "money", "Cost", ("month",)

    @property
    def query(self) -> dict[str, str]:
        return {"month": f"{self.begin:%Y-%m}"} if self.begin else {}

    async def look(self, cache: Cache) -> Seen:
        begin = self.begin or _first(datetime.now(UTC))
        month = await cache.fetch(("money", begin), lambda yard: _month(yard, begin), FRESH)
        return {
            "month": month,
            "total": sum(run.dollars or 0.0 for run in month.runs),
            "saved": sum(run.saved_dollars or 0.0 for run in month.runs),
            "days": list(_days(month)),
            "users": sum_by(month.runs, "user"),
            "jobs": sum_by(month.runs, "job"),
            "before": _first(begin - timedelta(days=1)),
            "after": _after(begin) if _after(begin) <= datetime.now(UTC) else None,
        }


def _month(yard: Yard, begin: datetime) -> Month:
    end = _after(begin)
    runs = tuple(run for run in list_billed(yard.list(since=begin, limit=MOST)) if run.created < end)
    return Month(begin, runs, overview.budget_of(yard) if datetime.now(UTC) < end else None)


def _days(month: Month) -> Iterator[Day]:
    sums = {int(day.of[-2:]): day for day in sum_by(month.runs, "day")}
    most = max((day.dollars for day in sums.values()), default=0.0) or 1.0
    for number in range(1, (_after(month.begin) - month.begin).days + 1):
        day = sums.get(number, Spent(""))
        yield Day(number, day.runs, day.dollars, round(100 * day.dollars / most, 2))


def _first(at: datetime) -> datetime:
    return at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _after(begin: datetime) -> datetime:
    return (begin + timedelta(days=31)).replace(day=1)
