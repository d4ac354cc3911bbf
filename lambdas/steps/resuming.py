"""The wait of a run for the run that it resumes. Until that run has ended, its hosts save and prune checkpoints."""

from datetime import datetime, timedelta

from lambdas.aws.dynamodb.rows import run_row
from lambdas.core.run import RunUpdate, slots, waiting
from lambdas.steps.admission import Admission
from lambdas.steps.inputs import Waits
from lambdas.steps.observability import clock
from trainyard.command_line import command_line
from trainyard.core.model.errors import JobRefused, Refused
from trainyard.core.model.job import Job
from trainyard.protocol.ledger.run import RunRow
from trainyard.values.validation import Fault

LOOK_SECONDS = 10
"""The interval between two checks of a run that saves its last checkpoint."""
ON_ITS_WAY = timedelta(seconds=8)
AT_ITS_END = ("Release", "Conclude")
"""States after the end of the training."""


def is_open(earlier: RunRow) -> bool:
    """Return True until the run has ended."""
    return earlier.ended is None


def faults(earlier: RunRow, asked: datetime) -> tuple[Fault, ...]:
    """Return why a run that has not ended cannot be resumed. A run that is about to end has no fault, and for a few
    seconds after `asked` no run has one, because a stop may be under way."""
    if earlier.stopping or earlier.cut_short or earlier.state in AT_ITS_END or clock() - asked < ON_ITS_WAY:
        return ()
    return (
        Fault(
            "checkpoints.resume",
            f"found {earlier.run}, which is still running and replaces its checkpoints; a second run that reads them "
            f"meanwhile would lose them; stop it first ({command_line('stop', earlier.run)}), or wait for its end",
        ),
    )


def drains(admitting: Admission, job: Job, values: RunUpdate) -> Waits | Refused | None:
    """Return the wait for the last checkpoint of the run to resume, or the refusal after too long a wait; None once
    that run has ended."""
    ledger, run, now = admitting.ledger, admitting.given.run, clock()
    earlier = ledger.run(job.checkpoints.resume) if job.checkpoints.resume else None
    own = ledger.run(run) if earlier else None
    if earlier is None or not is_open(earlier):
        if own and own.waiting:
            ledger.write(run_row(run, values, waits=False))
        return None
    created = admitting.given.started
    reason = f"{earlier.run}, which it resumes, saves its last checkpoint"
    if late := slots.refuse_late(job, created, now):
        refused = Refused(
            JobRefused.__name__,
            f"{earlier.run}, which this run resumes, has not ended: {late}. No host was launched. Check it with "
            f"{command_line('show', earlier.run)}, and resume it after its end.",
        )
        return admitting.write(refused, values) or refused
    told = waiting.for_run(job, created, seconds=LOOK_SECONDS, reason=reason, now=now)
    waits = Waits(reason=reason, seconds=LOOK_SECONDS)
    if own:
        ledger.write(run_row(run, {"waiting": told}))
        return waits
    return admitting.write(waits, {**values, "waiting": told}) or waits
