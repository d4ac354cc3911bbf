"""Decisions about schedules. Pure.

EventBridge Scheduler delivers each time at least once, perhaps twice, late, or after a later time. The row of the
schedule records the answer to each time, so that a repeated delivery gets the same answer.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from trainyard.core.model import submitter
from trainyard.core.model.schedule import Overlap
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.ledger.schedules import MOST_RECENT, Answer, Firing, ScheduleRow
from trainyard.protocol.requests import ScheduleAct
from trainyard.protocol.schedules import run_of
from trainyard.values.lazy import dataclass

TO_BEGIN = timedelta(minutes=10)
"""A run of a schedule without a row in the ledger counts as running for this time: its Admit may be delayed."""


@dataclass(frozen=True)
class Start:
    """Start the run. `row` is written first; None if the row has recorded this start."""

    run: str
    row: ScheduleRow | None


@dataclass(frozen=True)
class Skip:
    """Start nothing, and write the row."""

    row: ScheduleRow
    reason: str


@dataclass(frozen=True)
class Ignore:
    reason: str


def decide(
    row: ScheduleRow | None, at: datetime, last: RunRow | None, now: datetime
) -> Start | Skip | Ignore:
    """Answer a time of a schedule. `last` is the row of the last run that it started."""
    if row is None:
        return Ignore("the schedule was removed")
    if row.paused:
        return Ignore(f"{row.name} is paused")
    if at < row.since:
        return Ignore(f"{row.name} was made, changed or resumed after this time")
    if known := next((each for each in row.recent if each.at == at), None):
        if known.answer is Answer.STARTED:
            return Start(known.run, None)
        return Ignore("this time was skipped before")
    if len(row.recent) == MOST_RECENT and at < row.recent[-1].at:
        return Ignore("this time is too old")
    run = run_of(row.name, at)
    if row.overlap == Overlap.SKIP and (busy := _running(row, last, now)):
        firing = Firing(at=at, received=now, answer=Answer.SKIPPED, run=busy)
        return Skip(_with(row, firing), f"{busy} has not ended")
    return Start(run, _with(row, Firing(at=at, received=now, answer=Answer.STARTED, run=run)))


def last_run(row: ScheduleRow) -> str | None:
    """Return the run that the schedule has started last."""
    started = [each for each in row.recent if each.answer is Answer.STARTED]
    return max(started, key=lambda each: each.received).run if started else None


def change(row: ScheduleRow, act: ScheduleAct, now: datetime) -> ScheduleRow:
    """Return the row after a pause or a resumption. A repeated request changes nothing."""
    if act is ScheduleAct.PAUSE and row.paused is None:
        return replace(row, paused=now, version=row.version + 1)
    if act is ScheduleAct.RESUME and row.paused is not None:
        return replace(row, paused=None, since=now, version=row.version + 1)
    return row


def may_change(owner: str, by: str, *, operator: bool = False) -> bool:
    """Return True if the user may change the schedule. Any user may change one whose owner IAM has not verified."""
    return operator or owner in (by, submitter.UNKNOWN)


def _running(row: ScheduleRow, last: RunRow | None, now: datetime) -> str | None:
    """Return the last run of the schedule if it has not ended."""
    run = last_run(row)
    if run is None or (last is not None and last.ended is not None):
        return None
    received = max(each.received for each in row.recent if each.run == run)
    return run if last is not None or now - received < TO_BEGIN else None


def _with(row: ScheduleRow, firing: Firing) -> ScheduleRow:
    recent = sorted([*row.recent, firing], key=lambda each: each.at, reverse=True)[:MOST_RECENT]
    return replace(row, recent=tuple(recent), version=row.version + 1)
