"""Invariants of runs that start after other runs or by a schedule: none starts twice, too early, or without its rule,
and none is lost."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from simulation.aws.stepfunctions import Execution
from simulation.invariants.checks import DELETES
from simulation.invariants.model import Invariant
from trainyard.protocol.ledger.schedules import Answer, Firing, ScheduleRow
from trainyard.protocol.schedules import run_of
from trainyard.protocol.tags import Tag
from trainyard.values import serialization

if TYPE_CHECKING:
    from simulation.scenario import Scenario
    from simulation.yard import Yard

NOT_AS_WANTED = "EarlierRunFailed"
MOST_WAIT = timedelta(minutes=15)
"""The longest time from the end of the last awaited run to the first host of the run, or to its refusal."""
TO_BEGIN = timedelta(minutes=10)
"""The time that the admission of a scheduled run may take. The run has not ended during it."""
Wrong = Iterator[tuple[Invariant, str]]


def check(yard: Yard, scenario: Scenario, *, is_survived: bool) -> Wrong:
    """Yield what is wrong with the starts of runs. Deleted rows are excused: only they tell how a run has ended."""
    for wrong in _check_once(yard):
        yield Invariant.ONE_END, wrong
    if any(fault.what in DELETES for fault in yard.plan.all_faults):
        return
    for execution in yard.runs():
        section = ((yard.run_row(execution.name) or {}).get("job") or {}).get("start_after")
        if section:
            yield from _check_wait(yard, execution, section, is_survived=is_survived)
    for name, times in scenario.times.items():
        yield from _check_schedule(yard, name, times, is_survived=is_survived)


def _check_once(yard: Yard) -> Iterator[str]:
    """Yield each job file with more runs than uploads."""
    given = [json.loads(each.input) for each in yard.runs()]
    started = Counter(each["job_key"] for each in given if "job_key" in each and "scheduled" not in each)
    for key, count in started.items():
        if count > (uploads := len(yard.versions(key))):
            yield f"{key} was uploaded {uploads} times, but has {count} runs"


# ---------------------------------------------------------------------------------------------------------- start_after


def _check_wait(yard: Yard, execution: Execution, section: Mapping[str, Any], *, is_survived: bool) -> Wrong:
    run, row = execution.name, yard.run_row(execution.name) or {}
    others = {each: yard.run_row(each) or {} for each in section["runs"]}
    ends = [datetime.fromisoformat(each["ended"]) for each in others.values() if "ended" in each]
    last = max(ends) if len(ends) == len(others) else None
    is_as_wanted = last is not None and (
        section.get("when") == "end" or all(each["outcome"] == "succeeded" for each in others.values())
    )
    first = _first_host(yard, run)
    if first and (not is_as_wanted or last is None or first < last):
        told = ", ".join(
            f"{name} ended as {each.get('outcome')} at {each.get('ended')}" for name, each in others.items()
        )
        yield Invariant.FORWARD, f"{run} had a host at {first}, but {told}"
    was_refused = row.get("error") == NOT_AS_WANTED
    if was_refused and is_as_wanted:
        yield (
            Invariant.ONE_END,
            f"{run} was refused, although the runs that it starts after have ended as wanted",
        )
    if not is_survived or last is None:
        return
    if "ended" in row and not is_as_wanted and not (was_refused or "stopping" in row):
        yield Invariant.ONE_END, f"{run} ended as {row.get('outcome')} instead of refused"
    begun = first or (datetime.fromisoformat(row["ended"]) if "ended" in row else yard.world.now)
    if begun - last > MOST_WAIT and begun - execution.started > MOST_WAIT:
        yield (
            Invariant.ENDS_IN_TIME,
            f"{run} waited for {begun - last} after the end of the last run that it awaits",
        )


def _first_host(yard: Yard, run: str) -> datetime | None:
    return min((each.created for each in yard.ec2.find_tagged(Tag.RUN, run)), default=None)


# ------------------------------------------------------------------------------------------------------------- schedule


def _check_schedule(yard: Yard, name: str, times: Sequence[datetime], *, is_survived: bool) -> Wrong:
    """Check the runs of a schedule with these times, which follow from the documents and not from the yard's code."""
    started = {each.name: each for each in yard.runs() if _schedule_of(each) == name}
    expected = {run_of(name, at): at for at in times}
    for run in started.keys() - expected.keys():
        yield Invariant.ONE_END, f"{run} was started at a time that its schedule does not have"
    known = next((each for each in yard.rows("schedules") if each["sk"] == name), None)
    if known is None:
        if is_survived and name in yard.scheduler.names():
            yield (
                Invariant.TRUE_LEDGER,
                f"the schedule {name} calls the yard, but the ledger has no row of it",
            )
        return
    row = serialization.from_json(ScheduleRow, {**known, "name": name})
    if row.overlap == "skip":
        yield from _check_alone(yard, started)
    answers = {each.at: each for each in row.recent}
    for run, at in expected.items():
        is_its = at >= row.since and at in yard.scheduler.delivered_to(name)
        if wrong := _find_lost(run, started, answers.get(at), row) if is_survived and is_its else None:
            yield Invariant.ONE_END, wrong


def _schedule_of(execution: Execution) -> str | None:
    found: str | None = json.loads(execution.input).get("scheduled", {}).get("schedule")
    return found


def _check_alone(yard: Yard, started: Mapping[str, Execution]) -> Wrong:
    """Yield each run that began before the one before it had ended."""
    ordered = sorted(started.values(), key=lambda each: each.started)
    for before, after in itertools.pairwise(ordered):
        ended = (yard.run_row(before.name) or {}).get("ended")
        is_known = ended or after.started - before.started < TO_BEGIN
        if is_known and (ended is None or datetime.fromisoformat(ended) > after.started):
            yield Invariant.ONE_CLAIMANT, f"{after.name} was started before {before.name} had ended"


def _find_lost(
    run: str, started: Mapping[str, Execution], answer: Firing | None, row: ScheduleRow
) -> str | None:
    """Return what is wrong with a time that reached the yard: it has neither a run nor a reason for none."""
    if run in started:
        return None
    if answer is None or answer.answer is Answer.STARTED:
        return f"{run} was not started, and the schedule's row says {answer}"
    busy = started.get(answer.run)
    ran = (
        busy is not None
        and busy.started <= answer.received
        and (busy.stopped or answer.received) >= answer.received
    )
    return (
        None
        if row.overlap == "skip" and ran
        else f"{run} was skipped for {answer.run}, which did not run then"
    )
