"""The rows of schedules: `pk = schedules`, `sk = <name>`. The name is the name of the job."""

from datetime import datetime
from enum import StrEnum

from trainyard.values.lazy import dataclass

SCHEDULES = "schedules"
MOST_RECENT = 20
"""The most times of a schedule in its row."""


class Answer(StrEnum):
    """The answer to a time of a schedule."""

    STARTED = "started"
    SKIPPED = "skipped"
    """Its last run had not ended."""


@dataclass(frozen=True, kw_only=True)
class Firing:
    """A time of a schedule that EventBridge Scheduler has delivered."""

    at: datetime
    """The time of the schedule."""
    received: datetime
    answer: Answer
    run: str
    """The run that was started, or the run for which no other was started."""


@dataclass(frozen=True, kw_only=True)
class ScheduleRow:
    """A schedule."""

    name: str
    cron: str
    """The expression in the job file."""
    zone: str
    overlap: str
    """`skip` or `allow`."""
    by: str
    """The user who submitted the job."""
    key: str
    """The job file in the bucket."""
    version_id: str | None = None
    """The version of the job file; None in a bucket without versions."""
    etag: str = ""
    requester: str | None = None
    """The account that uploaded the job file."""
    since: datetime
    """When the schedule was last made, changed or resumed. It has no earlier times."""
    made: bool = False
    """True once EventBridge Scheduler has the schedule."""
    paused: datetime | None = None
    """When a user paused it."""
    recent: tuple[Firing, ...] = ()
    """The last times, the newest first."""
    version: int = 1
    """The number of writes. A write succeeds only if it read the newest one."""
