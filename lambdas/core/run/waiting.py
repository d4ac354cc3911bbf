"""Waiting runs without hosts: for capacity in EC2, for a slot in the yard, or for the end of the run that is
resumed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lambdas.core.capacity.plan import Refusal
from lambdas.core.run.preemption import LONGEST_WAIT
from trainyard.core.model.job import Job
from trainyard.protocol.ledger.run import Waiting, WaitsFor


def for_capacity(
    refusals: Sequence[Refusal],
    job: Job,
    *,
    since: datetime,
    deadline: datetime,
    seconds: int,
    reason: str,
    now: datetime,
) -> Waiting:
    """Describe a run that waits for capacity. `refusals` belong to the current search, oldest first; the next
    request follows in `seconds`."""
    last = {refusal.candidate: refusal.kind.value for refusal in refusals}
    return Waiting(
        what=WaitsFor.CAPACITY,
        since=since,
        next_request=now + timedelta(seconds=seconds),
        seconds=seconds,
        until=min(since + _patience(job), deadline),
        reason=reason,
        refused=dict(Counter(last.values())),
    )


def for_slot(
    job: Job, created: datetime, *, seconds: int, reason: str, turn: tuple[int, int], now: datetime
) -> Waiting:
    """Describe a run that waits for a slot. `turn` is its position, and the number of runs that wait for a slot."""
    waits = _wait_for_launch(WaitsFor.SLOT, job, created, seconds, reason, now)
    return replace(waits, position=turn[0], queued=turn[1])


def for_slot_again(
    queued: datetime, *, seconds: int, reason: str, turn: tuple[int, int], now: datetime
) -> Waiting:
    """Describe a run that waits for a slot again since `queued`, because it left for a run of a higher priority."""
    return Waiting(
        what=WaitsFor.SLOT,
        since=queued,
        next_request=now + timedelta(seconds=seconds),
        seconds=seconds,
        until=queued + LONGEST_WAIT,
        reason=reason,
        position=turn[0],
        queued=turn[1],
    )


def for_run(job: Job, created: datetime, *, seconds: int, reason: str, now: datetime) -> Waiting:
    return _wait_for_launch(WaitsFor.RUN, job, created, seconds, reason, now)


def _wait_for_launch(
    what: WaitsFor, job: Job, created: datetime, seconds: int, reason: str, now: datetime
) -> Waiting:
    return Waiting(
        what=what,
        since=created,
        next_request=now + timedelta(seconds=seconds),
        seconds=seconds,
        until=created + _patience(job),
        reason=reason,
    )


def _patience(job: Job) -> timedelta:
    return timedelta(minutes=job.limits.wait_minutes)
