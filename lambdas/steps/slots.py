"""Admission of a run to the yard: a training run gets a slot or waits for one; a dev host or bake gets one or is
refused.

Two concurrent admissions cannot both get the last slot or the last dollars. Each is conditional on the number of slots
given that it has read, and the second one finds a different number."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.logbook import Logbook
from lambdas.aws.dynamodb.rows import run_row
from lambdas.core.patrol import budget
from lambdas.core.run import RunUpdate, slots, waiting
from lambdas.core.run.slots import YardLimits, promise_of
from lambdas.steps.admission import Admission
from lambdas.steps.inputs import Admitted, Waits
from lambdas.steps.observability import clock
from trainyard.core.model.errors import BudgetSpent, Refused, ServiceUnavailable, YardFull
from trainyard.core.model.job import Job
from trainyard.protocol.ledger.claim import Claim, ClaimKind
from trainyard.protocol.ledger.yard import Money

MOST_TRIES = 20


def admit(
    admitting: Admission,
    job: Job,
    mine: Claim,
    values: RunUpdate,
    admitted: Admitted,
    limits: YardLimits,
    money: Money | None,
) -> Admitted | Waits | Refused:
    """Write the run with its claim and the decision. A repeated call of the same execution may get a slot later.

    Raises ServiceUnavailable if concurrent admissions interfere at every try."""
    if not limits.bind:
        return admitting.write(admitted, values) or admitted
    run, ledger, now, is_written = admitting.given.run, admitting.ledger, clock(), False
    book = Logbook(ledger.table)
    for _ in range(MOST_TRIES):
        number, claims = ledger.claims()
        before = next((claim for claim in claims if claim.run == run), None)
        if before and not before.waits:
            return admitted
        others = [claim for claim in claims if claim.run != run]
        if too_dear := over_budget(book, mine.dollars, others, limits, money, now):
            return admitting.write(too_dear, values) or too_dear
        decided = _decide(job, mine, others, now, admitted, limits)
        if isinstance(decided, Waits):
            told = waiting.for_slot(
                job,
                mine.created,
                seconds=decided.seconds,
                reason=decided.reason,
                turn=slots.find_position(mine, others),
                now=now,
            )
            if before:
                ledger.write(run_row(run, {"waiting": told}))
                return decided
            values = {**values, "waiting": told}
        try:
            admitting.write_claim(decided, mine, values, number, again=is_written or before is not None)
        except AlreadyWrittenError:
            if taken := admitting.refuse_used_name():
                return taken
            is_written = ledger.run(run) is not None
        else:
            return decided
    raise ServiceUnavailable(f"{run} found no slot, because too many runs are admitted at the same time")


def over_budget(
    book: Logbook,
    asks: float,
    others: Collection[Claim],
    limits: YardLimits,
    money: Money | None,
    now: datetime,
) -> Refused | None:
    """Refuse a run that may cost `asks` dollars if the budget is spent or promised to other runs. The rows of running
    runs are read only if their full promises leave too little, because a run that has spent half of its dollars
    promises only the other half."""
    month, running = limits.month or None, [claim for claim in others if claim.promises_dollars]
    promised = [promise_of(claim, now) for claim in running]
    if budget.refusal(money, month, now, asks=asks, promised=promised) is None:
        return None
    rows = book.runs(claim.run for claim in running if claim.kind is not ClaimKind.HELD)
    known = [
        replace(claim, per_hour=row.price, until=row.deadline) if (row := rows.get(claim.run)) else claim
        for claim in running
    ]
    why = budget.refusal(money, month, now, asks=asks, promised=[promise_of(claim, now) for claim in known])
    return Refused(BudgetSpent.__name__, why) if why else None


def _decide(
    job: Job, mine: Claim, others: Collection[Claim], now: datetime, admitted: Admitted, limits: YardLimits
) -> Admitted | Waits | Refused:
    full = slots.why_full(mine, others, limits)
    if full is None:
        return admitted
    late = slots.refuse_late(job, mine.created, now)
    if limits.waits and not late:
        seconds, minutes = slots.pause(job), job.limits.wait_minutes
        looks = f"it requests a slot every {seconds} seconds, for {minutes:g} minutes (limits.wait_minutes)"
        turn = slots.describe_turn(mine, others)
        return Waits(reason=f"{full}; {turn}; {looks}", seconds=seconds)
    so = late if limits.waits else "the yard lets no run wait (when_full)"
    return Refused(YardFull.__name__, f"{full}; {so}. {slots.advice(limits)}")
