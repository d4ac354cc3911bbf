"""Preemption (the setting `preempt`): a running run of a lower priority saves, leaves its hosts, and waits in the queue
again, so that a waiting run of a higher priority gets its slot. Pure."""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from lambdas.core.run import slots
from lambdas.core.run.records import Records
from lambdas.core.run.slots import YardLimits
from trainyard.protocol.ledger.claim import Claim, ClaimKind
from trainyard.protocol.ledger.run import RunRow, WaitsFor
from trainyard.values.lazy import dataclass

SPARED = timedelta(minutes=10)
"""A run that has continued after a preemption trains at least this long before the next one."""
LONGEST_WAIT = timedelta(days=3)
"""How long a preempted run waits for a slot. The state machine allows 25,000 events, and each try has about a dozen."""
MOST_CHECKED = 20
"""The most running runs that one pass of patrol checks. Each costs a read of the ledger."""


@dataclass(frozen=True)
class Choice:
    """The run that leaves, and the waiting run that needs its slot."""

    leaves: Claim
    needs: Claim


def first_waiting(claims: Collection[Claim]) -> Claim | None:
    """Return the waiting run that gets the next slot, if a running run has a lower priority and no run is leaving.
    Return None if no preemption can help, which is known without any other read."""
    head = min((claim for claim in claims if claim.waits), key=slots.turn, default=None)
    if head is None or leaving(claims):
        return None
    return head if _lower(head, claims) else None


def leaving(claims: Collection[Claim]) -> list[Claim]:
    """Return the runs that were ordered to leave and have not entered the queue yet."""
    return [claim for claim in claims if claim.leaves_for and not claim.waits]


def choose(
    head: Claim, claims: Collection[Claim], limits: YardLimits, may_leave: Callable[[Claim], bool]
) -> Choice | None:
    """Choose the run that leaves for `head`: of the lowest priority, and of these the one that got its slot last. None
    if `head` fits, or if it would not fit although all runs of lower priorities left. If several runs have to
    leave, the first of them leaves now. Runs that are not needed stay."""
    others = [claim for claim in claims if claim.run != head.run]
    if slots.why_full(head, others, limits) is None:
        return None
    chosen: list[Claim] = []
    for claim in _lower(head, claims)[:MOST_CHECKED]:
        if may_leave(claim):
            chosen.append(claim)
        if chosen and _fits(head, others, chosen, limits):
            break
    else:
        return None
    for claim in tuple(chosen):
        fewer = [each for each in chosen if each != claim]
        if _fits(head, others, fewer, limits):
            chosen = fewer
    return Choice(leaves=chosen[0], needs=head)


def needs_slot(row: RunRow | None) -> bool:
    """Return True if the run still waits for a slot."""
    is_open = row is not None and not (row.ended or row.cut_short or row.stopping)
    return is_open and row is not None and row.waiting is not None and row.waiting.what is WaitsFor.SLOT


def why_stays(records: Records, now: datetime) -> str | None:
    """Return why a running run is not preempted; None if it may be. It must have saved a checkpoint, because it would
    lose its work otherwise."""
    run, row = records.run, records.attempts.get(records.run.attempt)
    if run.kind != "train" or run.serves:
        return "it serves a model or does not train"
    if run.stopping or run.ended or run.cut_short or run.leaves_for:
        return "it ends, or leaves already"
    if run.state != "Train" or row is None or row.started is None or row.ending or row.capped or row.growing:
        return "it does not train now"
    if not any(each.saved or each.from_step for each in records.attempts.values()):
        return "it has saved no checkpoint"
    if run.preempted and now - row.started < SPARED:
        return "it has continued only a moment ago after a preemption"
    return None


def pause(queued: datetime, now: datetime) -> int:
    """Return the seconds until the next try to get a slot: a twentieth of the time that the run has waited."""
    return int(min(max((now - queued).total_seconds() / 20, slots.SHORTEST), slots.LONGEST))


def _lower(head: Claim, claims: Collection[Claim]) -> list[Claim]:
    """Return the running training runs of lower priorities. The first one leaves first."""
    lower = [
        claim
        for claim in claims
        if claim.kind is ClaimKind.TRAIN and not claim.waits and claim.priority < head.priority
    ]
    newest_first = sorted(lower, key=lambda claim: (claim.given or claim.created, claim.run), reverse=True)
    return sorted(newest_first, key=lambda claim: claim.priority)


def _fits(head: Claim, others: Collection[Claim], gone: Collection[Claim], limits: YardLimits) -> bool:
    return slots.why_full(head, [claim for claim in others if claim not in gone], limits) is None
