"""The wait for a slot of a run that left its hosts for a run of a higher priority.

A slot is given as in Admit (lambdas/steps/slots.py): on the condition that no other slot was given since the claims
were read."""

from dataclasses import replace
from datetime import datetime

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import event_row, open_row, run_row, slot_given
from lambdas.core.capacity.placement import GiveUp, RetireFirst, TryLater
from lambdas.core.run import RunUpdate, draining, preemption, slots, waiting
from lambdas.core.run.records import Records
from lambdas.core.run.slots import YardLimits
from lambdas.steps.observability import note
from lambdas.steps.slots import MOST_TRIES
from lambdas.workflows.train.launch.request import LaunchSettings
from trainyard.core.model.errors import ServiceUnavailable, YardFull
from trainyard.protocol.ledger.attempt import Ending
from trainyard.protocol.ledger.claim import Claim
from trainyard.protocol.ledger.run import Preemption, RunRow


def wait_for_slot(
    yard: LaunchSettings, ledger: Ledger, records: Records, attempt: int, now: datetime
) -> TryLater | RetireFirst | GiveUp | None:
    """Return the wait of a run that has left for another, or the end of its wait; None once it has a slot again.

    Raises ServiceUnavailable if concurrent admissions interfere at every try."""
    run, limits = records.run, YardLimits(runs=yard.most_runs, hosts=yard.most_hosts)
    if records.remaining(attempt):
        return RetireFirst(reason="hosts that were kept end first, because the run waits in the queue")
    for _ in range(MOST_TRIES):
        left = run.leaves_for
        if left is None:
            return None
        if run.ended or run.cut_short:
            return GiveUp("Aborted", "the execution is over, so the run waits no more")
        number, claims = ledger.claims()
        mine = next((claim for claim in claims if claim.run == run.run), None)
        try:
            if mine is None:
                _give(ledger, run, left, None, number, now)
                return None
            own = replace(mine, waits=True, leaves_for=None)
            others = [claim for claim in claims if claim.run != run.run]
            full = slots.why_full(own, others, limits)
            if full is None:
                _give(ledger, run, left, own, number, now)
                return None
            return _wait(ledger, replace(records, run=run), attempt, own, others, full, now)
        except AlreadyWrittenError:
            run = ledger.require(run.run).run
    raise ServiceUnavailable(f"{run.run} found no slot, because too many runs are admitted at the same time")


def _give(
    ledger: Ledger, run: RunRow, left: Preemption, own: Claim | None, number: int, now: datetime
) -> None:
    """Give the run a slot. Its hours do not include the wait."""
    values: RunUpdate = {"preempted": replace(left, queued=left.queued or now, given=now)}
    if left.queued:
        values["begun"] = run.hours_since + (now - left.queued)
    claim = replace(own, waits=False, given=now) if own else None
    ledger.write(
        run_row(run.run, values, unless="ended", waits=False),
        *((open_row(run.run, run.kind, run.execution_arn, claim), slot_given(number)) if claim else ()),
        event_row(run.run, note("slot given", f"it continues after it had left for {left.run}", at=now)),
    )


def _wait(
    ledger: Ledger,
    records: Records,
    attempt: int,
    own: Claim,
    others: list[Claim],
    full: str,
    now: datetime,
) -> TryLater | GiveUp:
    """Write the wait of the run. The first time its slot becomes free, in the same transaction."""
    run, job, left = records.run, records.job, records.run.leaves_for
    assert job is not None
    assert left is not None
    before = records.attempts.get(attempt - 1)
    told = before.reason if before and before.ending is Ending.PREEMPTED else None
    queued, story = left.queued or now, told or draining.describe_preemption(records, left)
    if now - queued >= preemption.LONGEST_WAIT:
        days = preemption.LONGEST_WAIT.days
        return GiveUp(YardFull.__name__, f"{story}; {full}; it has waited {days} days, which is the limit")
    seconds = preemption.pause(queued, now)
    reason = f"{story}; {full}; {slots.describe_turn(own, others)}"
    waits = waiting.for_slot_again(
        queued, seconds=seconds, reason=reason, turn=slots.find_position(own, others), now=now
    )
    values: RunUpdate = {"waiting": waits}
    if left.queued is None:
        first: RunUpdate = {"preempted": replace(left, queued=now), "state": "Launch", "attempt": attempt}
        ledger.write(
            run_row(run.run, {**values, **first}, unless="ended"),
            open_row(run.run, run.kind, run.execution_arn, own),
            event_row(run.run, note("waits", reason, at=now)),
        )
    else:
        ledger.write(run_row(run.run, values, unless="ended"))
    return TryLater(seconds, reason)
