"""The end of waits and attempts, for waiting states and for the signals that they wait for.

Both sides follow one order. A waiting state stores its task token, then reads the ledger. A signal is written to the
ledger, then looks for a task token. Therefore the later of the two answers the task."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar, assert_never

from lambdas.aws import states
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import answered_row, attempt_row, event_row, run_row, token_row
from lambdas.aws.dynamodb.write import Write
from lambdas.aws.ec2.instances import Instance
from lambdas.core.run import AttemptUpdate, deadlines, readiness
from lambdas.core.run.outcome import failure_update
from lambdas.core.run.records import TOKENS_BY_KIND, Records
from lambdas.core.run.recovery import Trouble, trouble_of
from lambdas.steps.inputs import Answer
from lambdas.steps.observability import logger, note
from trainyard.core.model.errors import AccessDenied, Misconfigured
from trainyard.protocol.ledger.attempt import Ending, TokenRow
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.signals import Resumed, to_detail
from trainyard.protocol.timeline import Entry
from trainyard.values import serialization
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Done:
    """The answer of a task that waits for an SSM document."""

    kind: ClassVar[str] = "done"


@dataclass(frozen=True, kw_only=True)
class Available:
    """The answer of a task that waits for an image."""

    kind: ClassVar[str] = "available"
    image: str


@dataclass(frozen=True, kw_only=True)
class GangReady(Answer):
    """The answer of AwaitHosts."""

    kind = "gang_ready"
    train_seconds: int
    """The timeout of Train."""
    heartbeat_seconds: int
    """The longest time that Train waits for progress."""


@dataclass(frozen=True, kw_only=True)
class Finished(Answer):
    """The answer of Train after a program that ended well."""

    kind = "finished"
    step: int | None


TokenAnswer = GangReady | Finished | Done | Available


def begin_wait(
    ledger: Ledger, run: str, attempt: int, wait: str, task_token: str, now: datetime, *, state: str
) -> Records:
    """Store the task token of a new wait; return the records after that."""
    try:
        ledger.write(
            token_row(run, attempt, wait, task_token, now),
            run_row(run, {"state": state, "attempt": attempt}),
        )
    except AlreadyWrittenError:
        logger.info("%s: another call stored this task token of %s", run, wait)
    return ledger.require(run)


def end_once(ledger: Ledger, run: str, attempt: int, values: AttemptUpdate, *also: Write) -> bool:
    """Write the end of the attempt and `also`, unless the attempt has ended before; return whether it was written."""
    try:
        ledger.write(attempt_row(run, attempt, values, unless="ending"), *also)
    except AlreadyWrittenError:
        logger.info("attempt %s of %s had ended before", attempt, run)
        return False
    return True


def explain_failed_start(row: HostRow, host: Instance) -> str | None:
    """Return why a replacement host could not start either; None for a host that EC2 started."""
    if row.ready or not host.never_ran:
        return None
    return (
        f"EC2 could not start {host.id}: {host.state_reason}. The usual cause is the KMS key of its disk, which the "
        "roles of the yard or of EC2 may not use. Run `make preflight` for the setting (kms_key); the output Prepared "
        "of the Training stack names missing grants"
    )


def settle(ledger: Ledger, records: Records, attempt: int, now: datetime) -> bool:
    """Answer the tasks that wait for the end of this attempt; return whether the attempt has ended."""
    row = records.attempts.get(attempt)
    if row is None or row.ending is None:
        return False
    trouble = trouble_of(row)
    for wait in TOKENS_BY_KIND.get(records.run.kind, ()):
        token = records.waiting(attempt, (wait,))
        if token and trouble:
            fail(ledger, records.run.run, token, trouble, now)
        elif token and wait == "train":
            answer = Finished(reason=row.reason or "the program finished", step=row.to_step)
            succeed(ledger, records.run.run, token, answer, now)
    return True


def refuse_denied(records: Records, attempt: int) -> None:
    """Raise the denial that ended the attempt, if any. Signal may lack the permission to fail the task itself."""
    row = records.attempts.get(attempt)
    trouble = trouble_of(row) if row else None
    if trouble and trouble.error == AccessDenied.__name__:
        raise AccessDenied(trouble.reason)


def end(
    ledger: Ledger,
    run: str,
    attempt: int,
    entry: Entry,
    now: datetime,
    *,
    trouble: Trouble | None,
    step: int | None,
    resumed: Resumed | None = None,
) -> None:
    """Record the end of the attempt and answer its task. The first end counts. `resumed` describes what the program
    restored, if the reporting host names it."""
    well: AttemptUpdate = {"ending": Ending.FINISHED, "ended": now, "reason": entry.reason}
    values: AttemptUpdate = {**(failure_update(trouble, now) if trouble else well), "to_step": step}
    if resumed:
        values["resumed"] = to_detail(resumed)
    if not end_once(ledger, run, attempt, values, event_row(run, entry)):
        logger.info("%s changes nothing", entry.event)
    settle(ledger, ledger.require(run), attempt, now)


def gather(
    ledger: Ledger,
    records: Records,
    attempt: int,
    now: datetime,
    *,
    lost: Mapping[str, str],
) -> None:
    """End AwaitHosts once the gang is complete or has lost a host."""
    token = records.waiting(attempt, ("await_hosts",))
    if token is None:
        return
    members = records.members(attempt)
    ids = [host.instance for host in members]
    ready = records.ready(attempt)
    lost = dict(lost) | {host.instance: host.ending_reason for host in members if host.ending_reason}
    run, patience = records.run.run, now + timedelta(days=1)
    verdict = readiness.assess(ids, ready=ready, lost=lost, now=now, deadline=patience)
    match verdict:
        case readiness.Complete(reason=reason):
            lasts, silent = deadlines.train_timeouts(records, attempt, now)
            entry = note("gang_ready", reason, at=now, attempt=attempt)
            try:
                ledger.write(
                    attempt_row(run, attempt, {"gang_ready": now}, unless="gang_ready"), event_row(run, entry)
                )
            except AlreadyWrittenError:
                logger.info("%s: two hosts were last at the same time", run)
            answer = GangReady(reason=reason, train_seconds=lasts, heartbeat_seconds=silent)
            succeed(ledger, run, token, answer, now)
        case readiness.Failed(error=error, lost=gone, reason=reason):
            entry = note("host lost", reason, at=now, attempt=attempt)
            trouble = Trouble(error=error, reason=reason, lost=gone)
            end(ledger, run, attempt, entry, now, trouble=trouble, step=None)
        case readiness.Waiting(reason=reason):
            logger.info("%s: %s", run, reason)
        case _:
            assert_never(verdict)


def give_up(ledger: Ledger, run: str, lost: Misconfigured, now: datetime) -> int:
    """Fail every wait of a run whose rows were lost, so that its hosts are not kept in vain; return the number of
    waits. Without a wait, the run ends with the timeout of its state."""
    trouble = Trouble(error=Misconfigured.__name__, reason=lost.reason, final=True)
    waiting = ledger.list_unanswered_tokens(run)
    for token in waiting:
        fail(ledger, run, token, trouble, now)
    return len(waiting)


def succeed(ledger: Ledger, run: str, token: TokenRow, answer: TokenAnswer, now: datetime) -> None:
    if not states.succeed(token.token, serialization.to_json(answer)):
        logger.info("the task token %s of %s was answered before", token.wait, run)
    ledger.write(answered_row(run, token, now))


def fail(ledger: Ledger, run: str, token: TokenRow, trouble: Trouble, now: datetime) -> None:
    if not states.fail(token.token, trouble):
        logger.info("the task token %s of %s was answered before", token.wait, run)
    ledger.write(answered_row(run, token, now))
