"""The schedules of a yard: list, wait for a new one, pause, resume and remove."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING

from trainyard.client import people
from trainyard.client.errors import Denied, ScheduleNotChanged, ScheduleNotFound
from trainyard.client.identity import caller_name
from trainyard.command_line import command_line
from trainyard.core.model import cron, submitter
from trainyard.protocol import sources
from trainyard.protocol.ledger.schedules import MOST_RECENT, SCHEDULES, Answer, Firing, ScheduleRow
from trainyard.protocol.requests import ScheduleAct, ScheduleRequest
from trainyard.protocol.schedules import MISSED_AFTER
from trainyard.values import serialization
from trainyard.values.validation import did_you_mean

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment

LOOK_SECONDS = 0.5
WAIT_SECONDS = 120.0


@dataclass(frozen=True)
class Schedule:
    """A schedule as it was read. Its name is the name of its job."""

    yard: Deployment
    row: ScheduleRow

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def is_paused(self) -> bool:
        return self.row.paused is not None

    @property
    def recent(self) -> tuple[Firing, ...]:
        """Return the last times that started a run or were skipped, the newest first."""
        return self.row.recent

    @property
    def last_run(self) -> str | None:
        """Return the last run that the schedule started."""
        return next((each.run for each in self.recent if each.answer is Answer.STARTED), None)

    def next_times(self, most: int = 1, now: datetime | None = None) -> list[datetime]:
        """Return the next times in UTC; none while it is paused or not made yet."""
        if self.is_paused or not self.row.made:
            return []
        return cron.next_times(self.row.cron, self.row.zone, now or datetime.now(UTC), most)

    def missed(self, now: datetime | None = None) -> list[datetime]:
        """Return the recent times, in UTC, that EventBridge Scheduler has not delivered within its hour."""
        until = (now or datetime.now(UTC)) - MISSED_AFTER
        known = {each.at for each in self.recent}
        first = self.row.since
        if len(self.recent) == MOST_RECENT:
            first = max(first, self.recent[-1].at)
        if self.row.paused:
            until = min(until, self.row.paused)
        times = cron.parse(self.row.cron).times_after(first, self.row.zone)
        expected = [*takewhile(lambda at: at < until, times)]
        return [at for at in expected[-MOST_RECENT:] if at not in known]

    def pause(self) -> Schedule:
        """Start no more runs until the schedule is resumed. A running run continues."""
        return self._change(ScheduleAct.PAUSE)

    def resume(self) -> Schedule:
        return self._change(ScheduleAct.RESUME)

    def remove(self) -> None:
        """Remove the schedule. Its runs stay."""
        self._change(ScheduleAct.REMOVE)

    def _change(self, act: ScheduleAct) -> Schedule:
        """Request a change and wait for it. Raise ScheduleNotChanged."""
        mine = caller_name(self.yard.session)
        is_owner = self.row.by in (mine, submitter.UNKNOWN)
        source = None if is_owner else sources.operator_source(mine)
        try:
            people.send_request(self.yard, ScheduleRequest(schedule=self.name, act=act), source)
        except Denied as error:
            if is_owner:
                raise
            raise Denied(
                f"{self.name} is a schedule of {self.row.by}",
                "only this user and operators may change it; nothing was changed",
                f"ask {self.row.by} or an operator",
            ) from error
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            row = read(self.yard, self.name)
            if act is ScheduleAct.REMOVE:
                if row is None:
                    return self
            elif row is None:
                break
            elif (row.paused is not None) is (act is ScheduleAct.PAUSE):
                return Schedule(self.yard, row)
            time.sleep(LOOK_SECONDS)
        raise ScheduleNotChanged(
            f"{self.name} was not changed within {WAIT_SECONDS:g} s",
            "the yard may be busy, or the schedule may belong to another user",
            command_line("schedules", "show", self.name),
        )


def read(yard: Deployment, name: str) -> ScheduleRow | None:
    table = yard.session.resource("dynamodb").Table(yard.table)
    found = table.get_item(Key={"pk": SCHEDULES, "sk": name}, ConsistentRead=True)
    return serialization.from_json(ScheduleRow, found["Item"]) if "Item" in found else None


def list_all(yard: Deployment) -> list[Schedule]:
    """Return the schedules of a yard in the order of their names."""
    return [Schedule(yard, serialization.from_json(ScheduleRow, row)) for row in yard.partition(SCHEDULES)]


def find(yard: Deployment, name: str) -> Schedule:
    """Return a schedule. Raise ScheduleNotFound."""
    if row := read(yard, name):
        return Schedule(yard, row)
    names = [each.name for each in list_all(yard)]
    raise ScheduleNotFound(
        f"the yard has no schedule {name}{did_you_mean(name, names)}",
        f"its schedules: {', '.join(names) or 'none'}",
        command_line("schedules", "ls"),
    )


def wait_for(yard: Deployment, name: str, version: str, is_refused: Callable[[], object]) -> Schedule | None:
    """Wait until the yard has made the schedule of this version of a job file. Return None if it has refused the file,
    or has not answered in time."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        row = read(yard, name)
        if row and row.made and row.version_id == version:
            return Schedule(yard, row)
        if is_refused():
            return None
        time.sleep(LOOK_SECONDS)
    return None
