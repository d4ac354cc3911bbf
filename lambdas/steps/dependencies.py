"""The wait of a run for the end of other runs (`start_after`).

AwaitRuns stores its task token and a row at each other run, and then reads how these runs have ended. Conclude writes
the end of a run, and then reads the rows of the runs that wait for it. Therefore the later of both answers the task.
Patrol finds a wait that neither has ended."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import event_row, run_row
from lambdas.aws.dynamodb.write import Write
from lambdas.core.run import RunUpdate, dependencies
from lambdas.core.run.dependencies import MayStart, MustWait, NotStarted
from lambdas.core.run.records import Records
from lambdas.steps import attempts
from lambdas.steps.admission import Admission
from lambdas.steps.inputs import AfterRuns, Waits
from lambdas.steps.observability import clock, logger, note
from trainyard.core.model.errors import EarlierRunFailed, Refused
from trainyard.core.model.job import Job
from trainyard.core.model.schedule import StartAfter
from trainyard.protocol.ledger.lookup import waiters_of
from trainyard.protocol.ledger.run import RunRow, Waiting, WaitsFor

WAIT = "runs"
"""The wait of the state AwaitRuns."""
LOOK_SECONDS = 5
ON_ITS_WAY = timedelta(minutes=1)
"""The time for the admission of another run that was submitted just before."""
LONGEST_WAIT = timedelta(days=59)
"""The time limit of an execution of train is 60 days."""


def wait(admitting: Admission, job: Job, values: RunUpdate) -> AfterRuns | Waits | Refused | None:
    """Return the wait of a new run for other runs, or the refusal; None once it may start."""
    wanted = job.start_after
    if wanted is None:
        return None
    ledger, run, now = admitting.ledger, admitting.given.run, clock()
    rows, own = _read(ledger, wanted.runs), ledger.run(run)
    missing = [each for each in wanted.runs if each not in rows]
    if fault := dependencies.find_fault(run, wanted, rows):
        return _refuse(admitting, fault, values)
    if missing and own is None and now - admitting.given.started < ON_ITS_WAY:
        return Waits(reason=f"{', '.join(missing)} may still be admitted", seconds=LOOK_SECONDS)
    match dependencies.decide(wanted, rows):
        case NotStarted(reason=reason):
            return _refuse(admitting, reason, values)
        case MayStart():
            if own and own.waiting:
                entry = note("runs ended", "the runs that it waited for have ended as wanted", at=now)
                begun: RunUpdate = {**values, "begun": now}
                ledger.write(run_row(run, begun, waits=False), event_row(run, entry))
            elif own is None and now - admitting.given.started >= ON_ITS_WAY:
                values["begun"] = now  # its row was deleted while it waited
            return None
        case MustWait(runs=left):
            return _write_wait(admitting, dependencies.describe_wait(wanted, left), values, own)


def _refuse(admitting: Admission, reason: str, values: RunUpdate) -> Refused:
    refused = Refused(EarlierRunFailed.__name__, reason)
    return admitting.write(refused, values) or refused


def _write_wait(
    admitting: Admission, reason: str, values: RunUpdate, own: RunRow | None
) -> AfterRuns | Refused:
    since = admitting.given.started
    told = Waiting(
        what=WaitsFor.RUNS,
        since=since,
        next_request=since,
        seconds=60,
        until=since + LONGEST_WAIT,
        reason=reason,
    )
    waits = AfterRuns(reason=reason)
    if own:
        admitting.ledger.write(run_row(own.run, {"waiting": told}))
        return waits
    return admitting.write(waits, {**values, "waiting": told}) or waits


def begin(ledger: Ledger, run: str, attempt: int, task_token: str) -> None:
    """Store the task token, and a row at each run that has not ended; answer the task if none is left."""
    now = clock()
    records = attempts.begin_wait(ledger, run, attempt, WAIT, task_token, now, state="AwaitRuns")
    if wanted := _wanted(records):
        ledger.write(*(Write(waiters_of(each), run, {"since": now}, put=True) for each in wanted.runs))
    answer(ledger, run, now)


def answer(ledger: Ledger, run: str, now: datetime) -> str:
    """Answer the task of a waiting run unless it must wait; return the result for the log. Admit decides then whether
    the run starts."""
    records = ledger.read(run)
    token = records.tokens.get((records.run.attempt, WAIT)) if records else None
    wanted = _wanted(records) if records else None
    if records is None or token is None or token.answered or wanted is None:
        return f"{run} waits for no run"
    decided = dependencies.decide(wanted, _read(ledger, wanted.runs))
    if isinstance(decided, MustWait):
        return f"{run} waits for {', '.join(decided.runs)}"
    try:
        attempts.succeed(ledger, run, token, attempts.Done(), now)
    except AlreadyWrittenError:  # the other run that ends now must not fail because of it
        logger.warning("the rows of %s were deleted while its wait ended", run)
    ledger.write(*(Write(waiters_of(each), run, delete=True) for each in wanted.runs))
    return f"{run} waits no longer"


def release(ledger: Ledger, ended: str) -> None:
    """Answer the tasks of all runs that wait for a run whose end is written."""
    for run in ledger.waiters(ended):
        logger.info("%s", answer(ledger, run, clock()))
        ledger.write(Write(waiters_of(ended), run, delete=True))


def _wanted(records: Records) -> StartAfter | None:
    job = records.job
    return job.start_after if job else None


def _read(ledger: Ledger, runs: Iterable[str]) -> dict[str, RunRow]:
    return {run: row for run in runs if (row := ledger.run(run))}
