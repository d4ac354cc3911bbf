"""Schedules: what EventBridge Scheduler sends to the function submit, and the start of a scheduled run."""

import re
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import Any

from trainyard.values import serialization
from trainyard.values.fields import Text, required
from trainyard.values.lazy import dataclass

NAME = r"[a-z][a-z0-9-]{0,39}"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"
"""EventBridge Scheduler replaces this text in the input of a target by the time of the schedule, in UTC
(User Guide, context attributes)."""
RUN_OF_SCHEDULE = re.compile(rf"({NAME})-\d{{8}}-\d{{4}}")
"""The ids of other runs end in eight hexadecimal digits."""
MISSED_AFTER = timedelta(hours=1)
"""How long EventBridge Scheduler tries to call the function for one time of a schedule."""


@dataclass(frozen=True, kw_only=True)
class Scheduled:
    """The place of a run in its schedule, in the input of its execution."""

    schedule: str = field(
        metadata=required(
            Text(NAME, "the name of a schedule"), "The name of the schedule, which is its job's."
        )
    )
    at: str = field(metadata=required(Text(TIME, "a time in UTC"), "The time of the schedule."))


def target_input(schedule: str) -> dict[str, Any]:
    """Return the input of the function submit, as the schedule has it."""
    return {"schedule": schedule, "at": SCHEDULED_TIME}


def run_of(schedule: str, at: datetime) -> str:
    """Return the id of the run of a schedule at a time, in UTC: the same time never starts two runs."""
    return f"{schedule}-{at.astimezone(UTC):%Y%m%d-%H%M}"


def schedule_of(run: str) -> str | None:
    """Return the schedule that started the run with this id, or None."""
    found = RUN_OF_SCHEDULE.fullmatch(run)
    return found[1] if found else None


def shown_time(at: datetime) -> str:
    return serialization.timestamp(at)
