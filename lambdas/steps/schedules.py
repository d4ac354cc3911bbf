"""Schedules of jobs: made by an uploaded job file, answered at each time, and changed by requests of users.

The row in the ledger is written before EventBridge Scheduler is called, and before a run is started. A repeated event
finds the row and completes what a crash has left."""

from dataclasses import replace
from datetime import datetime

from lambdas.aws import scheduler, states
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.schedules import Schedules
from lambdas.aws.scheduler import Target
from lambdas.core import schedules
from lambdas.core.schedules import Ignore, Skip, Start
from lambdas.environment import YardSettings
from lambdas.steps.observability import clock, logger, set_log_context
from trainyard.command_line import command_line
from trainyard.core.jobfile import check
from trainyard.core.model import cron, submitter
from trainyard.core.model.errors import ServiceUnavailable
from trainyard.core.model.job import Job
from trainyard.core.model.schedule import Schedule
from trainyard.protocol.ledger.schedules import ScheduleRow
from trainyard.protocol.requests import ScheduleAct, ScheduleRequest
from trainyard.protocol.schedules import target_input
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

MOST_TRIES = 5
"""The most tries of a write that other writes interfere with."""


class ScheduleSettings(YardSettings):
    train_state_machine_arn: str
    schedule_target: str
    """The ARN of the function submit, which each schedule calls."""
    schedule_role: str
    """The role of EventBridge Scheduler."""
    schedule_queue: str
    """The queue for times that reached no function."""


@dataclass(frozen=True, kw_only=True)
class ScheduledFile:
    """An uploaded job file with a schedule."""

    key: str
    version_id: str | None
    etag: str
    requester: str | None


@dataclass(frozen=True)
class NotMade:
    """No schedule was made. Admit refuses the job, with this reason or with the faults of its file."""

    reason: str | None = None


def make(yard: ScheduleSettings, text: bytes, file: ScheduledFile) -> NotMade | None:
    """Make or replace the schedule of a job."""
    job = check.parse(text, source=file.key, bucket=yard.bucket_name)
    if not isinstance(job, Job) or job.schedule is None:
        return NotMade()
    table, by, now = Schedules(yard.table_name), submitter.submitter_of(file.key), clock()
    for _ in range(MOST_TRIES):
        before = table.find(job.name)
        if before and not schedules.may_change(before.by, by):
            return NotMade(
                f"the yard has a schedule {job.name} of {before.by}: give the job another name, or ask {before.by} "
                f"to remove it ({command_line('schedules', 'rm', job.name)})"
            )
        row = _new_row(job, job.schedule, file, by, now, before)
        try:
            if row is not before:
                table.put(row)
        except AlreadyWrittenError:
            continue
        refusal = _apply(yard, row)
        if refusal and before is None:
            table.remove(job.name)
        if refusal:
            return NotMade(f"EventBridge Scheduler refuses it: {refusal}")
        try:
            if not row.made:
                table.put(replace(row, made=True, version=row.version + 1))
        except AlreadyWrittenError:
            continue
        logger.info("the schedule %s is made", job.name)
        return None
    raise _too_busy(job.name)


def answer(yard: ScheduleSettings, name: str, at: datetime) -> tuple[str | None, bool]:
    """Answer a time of a schedule: return the run and whether it is new. Each time starts one run at most."""
    table = Schedules(yard.table_name)
    for _ in range(MOST_TRIES):
        row = table.find(name)
        last = schedules.last_run(row) if row else None
        decided = schedules.decide(row, at, table.run(last) if last else None, clock())
        try:
            match decided:
                case Ignore(reason=reason):
                    logger.info("%s at %s starts nothing: %s", name, serialization.timestamp(at), reason)
                    return None, False
                case Skip(row=after, reason=reason):
                    table.put(after)
                    logger.info("%s at %s is skipped: %s", name, serialization.timestamp(at), reason)
                    return None, False
                case Start(run=run, row=after):
                    if after:
                        table.put(after)
                    assert row, "only a schedule starts runs"
                    return run, _start(yard, row, run, at)
        except AlreadyWrittenError:
            logger.info("%s was written at the same time", name)
    raise _too_busy(name)


def change(yard: ScheduleSettings, request: ScheduleRequest, by: str, *, operator: bool) -> str:
    """Pause, resume or remove a schedule for a user, whose name IAM has verified; return the result for the log."""
    table, name = Schedules(yard.table_name), request.schedule
    for _ in range(MOST_TRIES):
        row = table.find(name)
        if row is None:
            scheduler.delete(yard.yard, name)
            return f"the yard has no schedule {name}"
        if not schedules.may_change(row.by, by, operator=operator):
            return f"{by} may not change {name}, a schedule of {row.by}"
        if request.act is ScheduleAct.REMOVE:
            scheduler.delete(yard.yard, name)
            table.remove(name)
            return f"{name} is removed"
        after = schedules.change(row, request.act, clock())
        try:
            if after is not row:
                table.put(after)
        except AlreadyWrittenError:
            continue
        _apply(yard, after)
        return f"{name} is {'paused' if after.paused else 'active'}"
    raise _too_busy(name)


def _too_busy(name: str) -> ServiceUnavailable:
    return ServiceUnavailable(f"the schedule {name} was changed by other calls at the same time")


def _new_row(
    job: Job, schedule: Schedule, file: ScheduledFile, by: str, now: datetime, before: ScheduleRow | None
) -> ScheduleRow:
    """Return the row of the job's schedule: `before` itself for an upload that was handled before."""
    if before and (before.key, before.version_id, before.etag) == (file.key, file.version_id, file.etag):
        return before
    made = ScheduleRow(
        name=job.name,
        cron=schedule.cron,
        zone=schedule.zone,
        overlap=schedule.overlap.value,
        by=by,
        key=file.key,
        version_id=file.version_id,
        etag=file.etag,
        requester=file.requester,
        since=now,
    )
    if before is None:
        return made
    return replace(made, paused=before.paused, recent=before.recent, version=before.version + 1)


def _apply(yard: ScheduleSettings, row: ScheduleRow) -> str | None:
    target = Target(function=yard.schedule_target, role=yard.schedule_role, queue=yard.schedule_queue)
    expression = cron.parse(row.cron).as_scheduler()
    return scheduler.put(
        yard.yard, row.name, expression, row.zone, target, target_input(row.name), enabled=row.paused is None
    )


def _start(yard: ScheduleSettings, row: ScheduleRow, run: str, at: datetime) -> bool:
    set_log_context(run)
    given = {
        "job_key": row.key,
        "version_id": row.version_id,
        "etag": row.etag,
        "requester": row.requester,
        "scheduled": {"schedule": row.name, "at": serialization.timestamp(at)},
    }
    given = {name: value for name, value in given.items() if value}
    started = states.start(yard.train_state_machine_arn, run, given, by_hand=command_line("submit", "FILE"))
    logger.info("%s %s", run, "started" if started else "was started before")
    return started
