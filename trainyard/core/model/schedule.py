"""The sections `schedule` and `start_after` of a job file: the times at which runs of the job start, and the runs that
must end before."""

from dataclasses import field
from enum import StrEnum
from typing import Any

from trainyard.core.model.job_fields import RUN_ID
from trainyard.values.fields import Choice, Kind, Several, Text, key, required
from trainyard.values.lazy import dataclass
from trainyard.values.validation import BareWord, bare_word, show_value

UTC = "UTC"


class Overlap(StrEnum):
    """The rule for a time of the schedule while its last run has not ended."""

    SKIP = "skip"
    """No run starts."""
    ALLOW = "allow"
    """Another run starts."""


class CronText(Kind[str]):
    words = (
        "a cron expression of five fields (minute, hour, day of month, month, day of week), as in 0 3 * * 1-5"
    )

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": r"^\s*(\S+\s+){4}\S+\s*$"}

    def problem(self, value: object) -> str | None:
        if not isinstance(value, str):
            return f"found {show_value(value)}; {self.words} is allowed"
        from trainyard.core.model import cron  # most jobs have no schedule, so that functions start faster

        try:
            cron.parse(value)
        except cron.CronError as error:
            return f"{show_value(value)} cannot be used: {error}"
        return None

    def convert(self, value: Any) -> str:
        return " ".join(value.split())


class ZoneName(Kind[str]):
    words = "a time zone of the IANA database, as in Europe/Berlin"

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": "^[A-Za-z0-9_+/-]{1,50}$"}

    def problem(self, value: object) -> str | None:
        if isinstance(value, BareWord):
            return bare_word(value)
        if not isinstance(value, str) or not 1 <= len(value) <= 50:
            return f"found {show_value(value)}; {self.words} is allowed"
        from trainyard.core.model import cron

        fault = cron.zone_fault(value)
        return f"{show_value(value)} {fault}" if fault else None


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """When runs of the job start."""

    cron: str = field(
        metadata=required(
            CronText(),
            "The times, in the five fields of cron: minute, hour, day of the month, month, day of the week. One of "
            "both days must be `*`.",
        )
    )
    zone: str = key(
        UTC,
        ZoneName(),
        "The time zone of these times. A time that the clock skips has no run, and a time that the clock shows twice "
        "has one run.",
    )
    overlap: Overlap = key(
        Overlap.SKIP,
        Choice(Overlap),
        "`skip`: no run starts while the last run of the schedule has not ended. `allow`: runs may overlap.",
    )


MOST_RUNS = 16


class When(StrEnum):
    """The end of another run that lets this run start."""

    SUCCESS = "success"
    """It must succeed."""
    END = "end"
    """Any end."""


@dataclass(frozen=True, kw_only=True)
class StartAfter:
    """Other runs, and how they must end."""

    runs: tuple[str, ...] = field(
        metadata=required(
            Several(
                each=Text(RUN_ID, "the id of a run"),
                named=f"1 to {MOST_RUNS} different ids of runs",
                least=1,
                most=MOST_RUNS,
            ),
            "The ids of runs or studies of the yard. They must exist, so that no runs wait for each other.",
        )
    )
    when: When = key(
        When.SUCCESS,
        Choice(When),
        "`success`: the run starts once all of them have succeeded, and is refused if one ends in another way. `end`: "
        "the run starts once all of them have ended.",
    )
