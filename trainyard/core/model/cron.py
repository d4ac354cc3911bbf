"""Times of a schedule: a cron expression of five fields in a time zone, and the same times for EventBridge Scheduler.

Changes of the clock follow EventBridge Scheduler: a time that the clock skips has no run, and a time that the clock
shows twice has one run, at the first of both.
"""

import re
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache

from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count
from trainyard.values.validation import nearest

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
EVERY = "*"
ITEM = re.compile(r"(?P<first>\*|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d{1,3}))?")
MOST_CHARACTERS = 256
"""The longest expression that EventBridge Scheduler accepts (API reference, CreateSchedule)."""
YEARS_AHEAD = 8
"""February 29 comes at least once in this time, also around the year 2100."""


class CronError(ValueError):
    """An expression without a meaning, with the reason."""


@dataclass(frozen=True)
class Field:
    """One field of a cron expression."""

    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()
    """Names in place of numbers, the first for `least`."""


FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of the month", 1, 31),
    Field("month", 1, 12, MONTHS),
    Field("day of the week", 0, 7, DAYS),
)


@dataclass(frozen=True)
class Cron:
    """The values of each field, as numbers. Sunday is 0."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None
    """None for every day of the month."""
    months: frozenset[int]
    weekdays: frozenset[int] | None
    """None for every day of the week."""

    def matches(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        if self.days is not None and day.day not in self.days:
            return False
        return self.weekdays is None or day.isoweekday() % 7 in self.weekdays

    def times_after(self, at: datetime, zone: str) -> Iterator[datetime]:
        """Yield the times after `at`, in UTC."""
        place, at = zoneinfo.ZoneInfo(zone), at.astimezone(UTC)
        first = at.astimezone(place).date() - timedelta(days=1)
        for number in range(366 * YEARS_AHEAD):
            day = first + timedelta(days=number)
            if not self.matches(day):
                continue
            found = {_moment(day, hour, minute, place) for hour in self.hours for minute in self.minutes}
            yield from sorted(each for each in found if each is not None and each > at)

    def as_scheduler(self) -> str:
        """Return the expression of EventBridge Scheduler: six fields, one of both days is `?`, and Sunday is 1."""
        weekdays = None if self.weekdays is None else frozenset(each + 1 for each in self.weekdays)
        days = "?" if weekdays else _text(self.days, FIELDS[2])
        months = None if len(self.months) == len(MONTHS) else self.months
        parts = (
            _text(self.minutes, FIELDS[0]),
            _text(self.hours, FIELDS[1]),
            days,
            _text(months, FIELDS[3]),
            _text(weekdays, FIELDS[4]) if weekdays else "?",
            EVERY,
        )
        return f"cron({' '.join(parts)})"


def parse(text: str) -> Cron:
    """Return the times of an expression. Raise CronError with the reason."""
    words = text.split()
    if len(words) != len(FIELDS):
        names = ", ".join(field.name for field in FIELDS)
        raise CronError(f"it has {format_count(len(words), 'field')}; five are required: {names}")
    minutes, hours, days, months, weekdays = (
        _read(word, field) for word, field in zip(words, FIELDS, strict=True)
    )
    every_day, every_weekday = (_is_every(words[n]) for n in (2, 4))
    if not every_day and not every_weekday:
        raise CronError(
            "it names days of the month and days of the week, which EventBridge Scheduler does not combine; make two "
            "jobs with a schedule each"
        )
    found = Cron(
        minutes,
        hours,
        None if every_day else days,
        months,
        None if every_weekday else frozenset(each % 7 for each in weekdays),
    )
    if not any(found.matches(date(2024, 1, 1) + timedelta(days=number)) for number in range(366)):
        raise CronError("no day of any year matches it")
    if len(found.as_scheduler()) > MOST_CHARACTERS:
        raise CronError(
            f"it is longer than the {MOST_CHARACTERS} characters that EventBridge Scheduler accepts"
        )
    return found


def next_times(text: str, zone: str, after: datetime, most: int = 1) -> list[datetime]:
    """Return the next times of an expression in a zone, in UTC."""
    times = parse(text).times_after(after, zone)
    return [each for _, each in zip(range(most), times, strict=False)]


@cache
def zones() -> frozenset[str]:
    """Return the names of time zones. It is empty on a machine without the time zone database, as functions are."""
    return frozenset(zoneinfo.available_timezones())


def zone_fault(zone: str) -> str | None:
    """Return why the zone cannot be used, or None. Without the database, EventBridge Scheduler checks the name."""
    if zone in zones() or not zones():
        return None
    by_city = [each for each in zones() if each.rpartition("/")[2].lower() == zone.rpartition("/")[2].lower()]
    close = min(by_city, default="") or nearest(zone, sorted(zones()))
    hint = f"; did you mean {close!r}?".replace("'", '"') if close else ""
    return f"is not a time zone of the IANA database, as in Europe/Berlin or UTC{hint}"


def _moment(day: date, hour: int, minute: int, place: zoneinfo.ZoneInfo) -> datetime | None:
    """Return the moment in UTC at which clocks first show this time; None if they skip it."""
    shown = datetime(day.year, day.month, day.day, hour, minute, tzinfo=place)
    moment = shown.astimezone(UTC)
    return moment if moment.astimezone(place).replace(tzinfo=None) == shown.replace(tzinfo=None) else None


def _is_every(word: str) -> bool:
    return word in (EVERY, "*/1", "?")


def _read(word: str, field: Field) -> frozenset[int]:
    if word == "?" and field.name.startswith("day"):
        word = EVERY
    found: set[int] = set()
    for item in word.split(","):
        found.update(_read_item(item, field))
    return frozenset(found)


def _read_item(item: str, field: Field) -> range:
    parts = ITEM.fullmatch(item)
    if parts is None:
        raise CronError(f"{item!r} is not a value of its {field.name}".replace("'", '"'))
    step = int(parts["step"] or 1)
    if parts["first"] == EVERY:
        if parts["last"]:
            raise CronError(f'"{item}" is not a value of its {field.name}')
        first, last = field.least, min(field.most, 6) if field.words is DAYS else field.most
    else:
        first = _number(parts["first"], field)
        open_end = field.most if parts["step"] else first
        last = _number(parts["last"], field) if parts["last"] else open_end
    if step < 1 or first > last:
        raise CronError(f'"{item}" is not a value of its {field.name}: the first must not be after the last')
    return range(first, last + 1, step)


def _number(word: str, field: Field) -> int:
    if word.lower() in field.words:
        return field.least + field.words.index(word.lower())
    if re.fullmatch(r"[0-9]{1,2}", word) and field.least <= int(word) <= field.most:
        return int(word)
    raise CronError(
        f'"{word}" is not a value of its {field.name}, which is from {field.least} to {field.most}'
    )


def _text(values: frozenset[int] | None, field: Field) -> str:
    """Return a field with ranges, such as `0,15-20`."""
    every = field.most - field.least + 1
    if values is None or (len(values) == every and not field.words):
        return EVERY
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
