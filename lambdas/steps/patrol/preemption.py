"""Preemption (the setting `preempt`): each pass of patrol lets at most one running run leave for the first waiting run,
and repeats the order until that run waits in the queue itself."""

from collections.abc import Iterator, Mapping

from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.logbook import Opened
from lambdas.aws.dynamodb.rows import event_row
from lambdas.core.run import preemption
from lambdas.core.run.slots import YardLimits
from lambdas.steps.observability import clock
from lambdas.steps.patrol.observe import PatrolSettings
from lambdas.steps.signals.events import Leave
from trainyard.protocol.ledger.claim import Claim
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.timeline import Entry, Source


def find(runs: Mapping[str, RunRow], opened: Opened | None, yard: PatrolSettings) -> Iterator[Leave]:
    """Yield the orders to leave. An order that was given once is repeated although the setting has changed since."""
    if opened is None:
        return
    for claim in preemption.leaving(opened.claims):
        if claim.leaves_for and claim.run in runs:
            yield Leave(run=claim.run, attempt=runs[claim.run].attempt, by=claim.leaves_for)
    if yard.preempt and (new := _decide(runs, opened, yard)):
        yield new


def _decide(runs: Mapping[str, RunRow], opened: Opened, yard: PatrolSettings) -> Leave | None:
    """Return the order for one more run to leave. The count of slots is read before the claims, and signal gives the
    order only if it is still the same."""
    if preemption.first_waiting(opened.claims) is None:
        return None
    ledger = Ledger(yard.table_name)
    given, claims = ledger.claims()
    head = preemption.first_waiting(claims)
    if head is None or not preemption.needs_slot(runs.get(head.run)):
        return None

    stays: dict[str, str] = {}

    def may_leave(claim: Claim) -> bool:
        records = ledger.read(claim.run)
        why = preemption.why_stays(records, clock()) if records else "it is over"
        if why:
            stays[f"run {claim.run} of priority {claim.priority}"] = why
        return why is None

    limits = YardLimits(runs=yard.most_runs, hosts=yard.most_hosts)
    chosen = preemption.choose(head, claims, limits, may_leave)
    if chosen is None:
        _tell_why(ledger, runs[head.run], stays)
        return None
    return Leave(
        run=chosen.leaves.run,
        attempt=runs[chosen.leaves.run].attempt if chosen.leaves.run in runs else 1,
        by=head.run,
        priority=head.priority,
        given=given,
    )


def _tell_why(ledger: Ledger, waits: RunRow, stays: Mapping[str, str]) -> None:
    """Write the reasons of the runs that stay into the timeline of the waiting run, at the beginning of its wait: the
    same reasons are one entry, however often patrol finds them."""
    if not stays or waits.waiting is None:
        return
    reason = "; ".join(f"{run} keeps its slot: {why}" for run, why in stays.items())
    entry = Entry(at=waits.waiting.since, source=Source.WORKFLOW, event="no room", reason=reason)
    ledger.write(event_row(waits.run, entry))
