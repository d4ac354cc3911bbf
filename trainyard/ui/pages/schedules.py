"""The list of the schedules, with their next times and last runs."""

from __future__ import annotations

import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime

from trainyard.client import Yard, schedules
from trainyard.client.schedules import Schedule
from trainyard.protocol.ledger.schedules import Answer
from trainyard.ui.cache import Cache
from trainyard.ui.pages.page import Page, Seen

FRESH = 5.0


@dataclass(frozen=True)
class ShownSchedule:
    """A schedule in the list."""

    schedule: Schedule
    next: datetime | None
    """None while it is paused or not made yet."""
    skipped: int
    missed: int

    @property
    def sign(self) -> str:
        """Return the color and the sign, as runs have them."""
        if self.schedule.is_paused:
            return "stopped"
        return "running" if self.schedule.row.made else "waiting"

    @property
    def word(self) -> str:
        if self.schedule.is_paused:
            return "Paused"
        return "Active" if self.schedule.row.made else "Not made yet"

    @property
    def next_in_zone(self) -> str:
        """Return the next time in the zone of the schedule."""
        if self.next is None:
            return ""
        return f"{self.next.astimezone(zoneinfo.ZoneInfo(self.schedule.row.zone)):%a %Y-%m-%d %H:%M}"


class Schedules(Page):
    name, title, parts = "schedules", "Schedules", ("rows",)

    async def look(self, cache: Cache) -> Seen:
        return {"schedules": await cache.fetch("schedules", _read_all, FRESH)}


async def find_schedule(cache: Cache, name: str) -> Schedule:
    """Return the schedule with this name. Raises ScheduleNotFound."""
    return await cache.do(lambda yard: schedules.find(yard, name))


def _read_all(yard: Yard) -> tuple[ShownSchedule, ...]:
    now = datetime.now(UTC)
    return tuple(
        ShownSchedule(
            each,
            next(iter(each.next_times(now=now)), None),
            sum(firing.answer is Answer.SKIPPED for firing in each.recent),
            len(each.missed(now)),
        )
        for each in yard.schedules()
    )
