"""Deadlines and timeouts of a run, computed from its records."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from lambdas.core.capacity import cost
from lambdas.core.run.draining import last_save
from lambdas.core.run.records import Records
from trainyard.core.model.job import Job
from trainyard.core.model.yard.billing import disk_hour
from trainyard.protocol.ledger.run import RunRow

HEARTBEAT = timedelta(seconds=150)
"""How long a gang in training may be silent. The chief's agent sends a signal each minute, whatever its program does:
one signal may be lost, and half a minute is for delays."""
PATIENCE: Mapping[str, timedelta] = {
    "install": timedelta(hours=2),
    "test": timedelta(hours=1),
    "generalize": timedelta(minutes=15),
    "pause": timedelta(minutes=15),
    "capture": timedelta(hours=24),
}
"""The longest time for each wait. EC2 may need a day for a first, large image."""
TO_SAVE = timedelta(minutes=5)
"""How long hosts may save and leave after the run's deadline before the state Train times out."""
LEAST = 60


def deadline(records: Records, attempt: int, now: datetime) -> datetime:
    """Return the deadline of the run while this attempt's gang runs: limits.hours or limits.dollars, whichever comes
    first."""
    job = records.job
    if job is None:
        raise ValueError(f"run {records.run.run} has no job, so nothing limits it")
    row = records.attempts.get(attempt)
    members = (*records.members(attempt), *records.joining()) if row else ()
    hourly = sum(host.price + disk_hour(host.disk_gib, host.gib_month) for host in members)
    spent = cost.bill(records.hosts.values(), now=now).dollars
    return cost.deadline(
        begun=records.run.hours_since,
        hours=job.limits.hours,
        dollars=job.limits.dollars,
        spent=spent,
        dollars_per_hour=hourly,
        now=now,
    )


def by_hours(run: RunRow, job: Job) -> datetime:
    """Return the time at which the hours of the run (limits.hours) are used up."""
    return run.hours_since + timedelta(hours=job.limits.hours)


def train_timeouts(records: Records, attempt: int, now: datetime) -> tuple[int, int]:
    """Return the seconds that Train may last, and may be silent: at least a minute each, so that a late start times
    out."""
    seconds = max(LEAST + 1, int((deadline(records, attempt, now) + TO_SAVE - now).total_seconds()))
    return seconds, min(int(HEARTBEAT.total_seconds()), seconds - 1)


def used_up(records: Records, attempt: int, now: datetime, *, step: int | None) -> str | None:
    """Return why the run stops at its cap and how to continue; None before the deadline."""
    job = records.job
    if job is None or deadline(records, attempt, now) > now:
        return None
    return describe_cap(records, now, step=step)


def describe_cap(records: Records, now: datetime, *, step: int | None) -> str:
    """Return which cap the run reached, at which time, cost and step, and how to continue."""
    run, job = records.run, records.job
    assert job is not None, "an admitted run has a job"
    hours, dollars = job.limits.hours, job.limits.dollars
    spent, took = (
        cost.bill(records.hosts.values(), now=now).dollars,
        (now - run.hours_since).total_seconds() / 3600,
    )
    by_dollars = spent / dollars > took / hours
    cap = f"${dollars:,.2f} (limits.dollars)" if by_dollars else f"{hours:g} hours (limits.hours)"
    reached = "" if step is None else f"step {step:,}, "
    return (
        f"stopped at its cap of {cap} after {reached}{took:.2f} hours and ${spent:,.2f}; "
        f"{last_save(records, now)}; {_how_to_go_on(records)}"
    )


def _how_to_go_on(records: Records) -> str:
    """Return how to continue. Conclude adds how to continue from outputs, because only ended hosts show whether a run
    left any."""
    saved = any(row.saved or row.from_step for row in records.attempts.values())
    how = f"resume with checkpoints.resume: {records.run.run} in a job" if saved else "start it again"
    return f"{how} with a higher cap"


def out_of_money(records: Records, now: datetime) -> str | None:
    """Return why the run may spend no more; None until the job's dollars are spent."""
    job = records.job
    spent = cost.bill(records.hosts.values(), now=now).dollars
    if job is None or spent < job.limits.dollars:
        return None
    return (
        f"the run has spent ${spent:.2f} and may spend ${job.limits.dollars:.2f} (limits.dollars); "
        f"{_how_to_go_on(records)}"
    )
