"""Launch: one request for the hosts that an attempt lacks. The workflow calls again for the next capacity pool, or
after a wait.

The warm pool comes first (warm_pool.py), then EC2 (capacity_pools.py). A job whose roles without a GPU have hosts of
their own is launched in two requests, one gang each; the first gang ends at once if the second is refused. Signal asks
for more hosts while an elastic attempt trains (more_hosts.py).
"""

from dataclasses import replace
from datetime import datetime

from lambdas import environment
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import event_row, run_row
from lambdas.core.capacity import placement, quarantine
from lambdas.core.capacity.placement import GiveUp, RetireFirst, Try, TryLater
from lambdas.core.capacity.retained_hosts import RetainedHosts
from lambdas.core.run import deadlines, stopping
from lambdas.core.run import waiting as run_waiting
from lambdas.core.run.records import Records
from lambdas.core.run.warm_pool import RETAGGED
from lambdas.needs import Needs, may
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import LaunchInput
from lambdas.steps.observability import clock, note
from lambdas.workflows.train.launch.answers import GangLaunched, LaunchAnswer, gang_launched
from lambdas.workflows.train.launch.capacity_pools import request_hosts
from lambdas.workflows.train.launch.more_hosts import grow, repeat
from lambdas.workflows.train.launch.request import LaunchRequest, LaunchSettings
from lambdas.workflows.train.launch.warm_pool import claim
from trainyard.core.model.errors import Stopped
from trainyard.protocol.ledger.attempt import Ending
from trainyard.protocol.ledger.run import Waiting

EVENTS = {TryLater.kind: "waiting", RetireFirst.kind: "start over", GiveUp.kind: "gave up"}
"""The events of the timeline."""

SHARED = (
    may("call", "ec2:DescribeInstances"),
    may("use the ledger", "Query", "PutItem", "UpdateItem"),
)
FOR_BUILDERS = Needs(LaunchSettings, (*SHARED, may("launch hosts of any image")), minutes=3)
"""Launch of a bake: its recipe names the image."""
NEEDS = Needs(
    LaunchSettings,
    (
        *SHARED,
        may("launch hosts of the yard's images"),
        may("use the image parameter", "GetParameters"),
        may("use the ledger", "GetItem", "DeleteItem"),
        may("mark hosts", *RETAGGED),
        may("send notifications"),
    ),
    minutes=3,
)


@entry_point
def handler(given: LaunchInput) -> LaunchAnswer:
    yard, run, attempt = environment.read(LaunchSettings), given.run, given.attempt
    ledger, now = Ledger(yard.table_name), clock()
    records = ledger.require(run)
    if given.more:
        return grow(yard, ledger, records, attempt, now)
    if attempt in records.attempts:
        return _with_deadline(gang_launched("it was launched before this call was repeated"), records)
    if records.incomplete_gang(attempt):
        return RetireFirst(reason="an earlier call launched only a part of the gang")
    if left_behind := records.unreachable(attempt):
        why = "; ".join(f"{host.instance}: {host.ending_reason}" for host in left_behind)
        return RetireFirst(
            reason=f"hosts that were kept for this attempt are ending ({why})", keep=RetainedHosts.REMAINING
        )
    leaves = records.run.leaves_for
    if _follows_interruption(records, attempt) and not (leaves and leaves.queued):
        from lambdas.steps import interruption_notification  # the first attempt starts faster without it

        interruption_notification.send(yard.yard, yard.table_name, yard.topic_arn, records, attempt, now)
    if open_request := records.growth():
        repeat(yard, ledger, records, open_request)
        records = ledger.require(run)
    if leaves and not _why_end(records, now):
        from lambdas.workflows.train.launch import queue  # few runs leave for others

        waits = queue.wait_for_slot(yard, ledger, records, attempt, now)
        if waits:
            return waits
        records = ledger.require(run)
    step = _next_step(ledger, records, attempt, now)
    if isinstance(step, Try):
        request = LaunchRequest(yard, ledger, records, attempt, step)
        answer = claim(request, now) or request_hosts(request)
        return _with_deadline(answer, records)
    told = [event_row(run, note(EVENTS[step.kind], step.reason, at=now, attempt=attempt))]
    if isinstance(step, TryLater):
        told.append(run_row(run, {"waiting": _waiting(records, attempt, step, now)}))
    ledger.write(*told)
    return step


def _waiting(records: Records, attempt: int, step: TryLater, now: datetime) -> Waiting:
    job = records.job
    assert job is not None
    return run_waiting.for_capacity(
        records.refusals(attempt),
        job,
        since=records.searching_since(attempt, now),
        deadline=deadlines.deadline(records, attempt, now),
        seconds=step.seconds,
        reason=step.reason,
        now=now,
    )


def _follows_interruption(records: Records, attempt: int) -> bool:
    """Return True for another attempt of a run that has lost its hosts or left them for another run. The study notifies
    for its trials."""
    before = records.attempts.get(attempt - 1)
    lost = before is not None and before.ending in (Ending.INTERRUPTED, Ending.LOST, Ending.PREEMPTED)
    return lost and records.run.kind == "train" and records.run.trial is None


def _with_deadline(answer: LaunchAnswer, records: Records) -> LaunchAnswer:
    """Return the answer with the deadline of the run by its hours, which Recover needs."""
    if not isinstance(answer, GangLaunched) or records.job is None:
        return answer
    return replace(answer, deadline=deadlines.by_hours(records.run, records.job))


def _why_end(records: Records, now: datetime) -> GiveUp | None:
    """Return the end of a run that needs no more hosts."""
    if records.run.stopping:
        return GiveUp(Stopped.__name__, stopping.reason(records, now))
    broke = deadlines.out_of_money(records, now)
    return GiveUp("LimitReached", broke) if broke else None


def _next_step(
    ledger: Ledger, records: Records, attempt: int, now: datetime
) -> Try | TryLater | RetireFirst | GiveUp:
    """Return the request whose answer was lost, if there is one; else what placement decides."""
    job, plan = records.job, records.plan
    assert job is not None
    assert plan is not None, "Plan comes before Launch"
    if end := _why_end(records, now):
        return end
    open_request = records.unanswered(attempt)
    if open_request:
        lost = "the answer to an earlier request to this pool was lost"
        return Try(open_request.candidate, open_request.round, lost, open_request.batch)
    refusals = records.refusals(attempt)
    planned_before = attempt > 1 or refusals  # the first request follows its plan in seconds
    faulty = quarantine.find_indexes(plan.candidates, ledger.quarantined(), now) if planned_before else ()
    return placement.next_step(
        plan.candidates,
        refusals,
        now=now,
        since=records.searching_since(attempt, now),
        wait_minutes=job.limits.wait_minutes,
        deadline=deadlines.deadline(records, attempt, now),
        held=records.held_candidate(attempt),
        first=records.first_market(attempt),
        last=(*records.failed_candidates(attempt), *faulty),
        order=job.hardware.prefer,
    )
