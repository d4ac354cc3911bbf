"""How an attempt goes on and ends: shared by the states that wait and by the signals they wait for.

Both sides follow one order. A waiting state stores its token, then looks whether its news is there already;
a signal stores its news, then looks whether a token waits. So whichever comes second answers.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar, assert_never

from lambdas.aws import states
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import answered_row, attempt_row, event_row, run_row, token_row
from lambdas.aws.dynamodb.write import Write
from lambdas.aws.ec2.instances import Instance
from lambdas.core.run import deadlines, readiness
from lambdas.core.run.outcome import ended_badly
from lambdas.core.run.records import ENDED_WITH_IT, Records
from lambdas.core.run.recovery import Trouble, trouble_of
from lambdas.core.run.updates import AttemptUpdate
from lambdas.steps.inputs import Answer
from lambdas.steps.observability import logger, note
from trainyard.core.model.errors import AccessDenied, Misconfigured
from trainyard.protocol.ledger.attempt import Ending, TokenRow
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.signals import Resumed, known
from trainyard.protocol.timeline import Entry
from trainyard.values import serialization
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Done:
    """A document has ended well: what answers the token of a state that waits for it."""

    kind: ClassVar[str] = "done"


@dataclass(frozen=True, kw_only=True)
class Available:
    """EC2 has made the image: what answers the token of a state that waits for it."""

    kind: ClassVar[str] = "available"
    image: str


@dataclass(frozen=True, kw_only=True)
class GangReady(Answer):
    """What answers the token of AwaitHosts; the seconds are what Train may take, and may take without progress."""

    kind = "gang_ready"
    train_seconds: int
    heartbeat_seconds: int


@dataclass(frozen=True, kw_only=True)
class Finished(Answer):
    """What answers the token of Train when the program ended well."""

    kind = "finished"
    step: int | None


TokenAnswer = GangReady | Finished | Done | Available


def await_news(
    ledger: Ledger, run: str, attempt: int, wait: str, token: str, now: datetime, *, state: str
) -> Records:
    """Store the token of a wait that begins; the records as they are after that."""
    try:
        ledger.write(
            token_row(run, attempt, wait, token, now),
            run_row(run, {"state": state, "attempt": attempt}),
        )
    except AlreadyWrittenError:
        logger.info("%s: another call has stored this token of %s", run, wait)
    return ledger.known(run)


def end_once(ledger: Ledger, run: str, attempt: int, values: AttemptUpdate, *also: Write) -> bool:
    """Write how the attempt ended (`ending` among the values) and `also` these, unless something has ended it before;
    whether it is written."""
    try:
        ledger.write(attempt_row(run, attempt, values, unless="ending"), *also)
    except AlreadyWrittenError:
        logger.info("attempt %s of %s had ended before", attempt, run)
        return False
    return True


def could_not_start(row: HostRow, host: Instance) -> str | None:
    """Why no other host in its place would start either; None for one that EC2 has started."""
    if row.ready or not host.never_ran:
        return None
    return (
        f"EC2 could not start {host.id}: {host.state_reason}. Mostly it is the KMS key of its disk, which "
        "the yard's roles or EC2's own may not use: `make preflight` says what to set (kms_key), and the "
        "Training stack's output Prepared what could not be granted"
    )


def settle(ledger: Ledger, records: Records, attempt: int, now: datetime) -> bool:
    """Answer whoever waits for this attempt's end, if it has ended; whether it has."""
    row = records.attempts.get(attempt)
    if row is None or row.ending is None:
        return False
    trouble = trouble_of(row)
    for wait in ENDED_WITH_IT.get(records.run.kind, ()):
        token = records.waiting(attempt, (wait,))
        if token and trouble:
            fail(ledger, records.run.run, token, trouble, now)
        elif token and wait == "train":
            answer = Finished(reason=row.reason or "the program finished", step=row.to_step)
            succeed(ledger, records.run.run, token, answer, now)
    return True


def refuse_denied(records: Records, attempt: int) -> None:
    """Raise the access error that ended the attempt, if one did: signal may not have been able to fail a wait."""
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
    """The attempt ended, well or badly: the first word counts, and its token is answered with it. `resumed` is what its
    program found when it restored, where the host that ended it says so."""
    well: AttemptUpdate = {"ending": Ending.FINISHED, "ended": now, "reason": entry.reason}
    values: AttemptUpdate = {**(ended_badly(trouble, now) if trouble else well), "to_step": step}
    if resumed:
        values["resumed"] = known(resumed)
    if not end_once(ledger, run, attempt, values, event_row(run, entry)):
        logger.info("%s changes nothing", entry.event)
    settle(ledger, ledger.known(run), attempt, now)


def gather(
    ledger: Ledger,
    records: Records,
    attempt: int,
    now: datetime,
    *,
    lost: Mapping[str, str],
) -> None:
    """Is the gang complete? Then AwaitHosts is over."""
    token = records.waiting(attempt, ("await_hosts",))
    if token is None:
        return
    members = records.members(attempt)
    ids = [host.instance for host in members]
    ready = records.ready(attempt)
    lost = dict(lost) | {host.instance: host.going for host in members if host.going}
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
    """Fail every wait of a run of which the ledger has lost rows, so that its hosts are not kept for nothing; how many
    there were. A run without any ends when its state has waited for too long."""
    trouble = Trouble(error=Misconfigured.__name__, reason=lost.reason, final=True)
    waiting = ledger.waiting(run)
    for token in waiting:
        fail(ledger, run, token, trouble, now)
    return len(waiting)


def succeed(ledger: Ledger, run: str, token: TokenRow, answer: TokenAnswer, now: datetime) -> None:
    if not states.succeed(token.token, serialization.to_json(answer)):
        logger.info("the token %s of %s was answered before", token.wait, run)
    ledger.write(answered_row(run, token, now))


def fail(ledger: Ledger, run: str, token: TokenRow, trouble: Trouble, now: datetime) -> None:
    if not states.fail(token.token, trouble):
        logger.info("the token %s of %s was answered before", token.wait, run)
    ledger.write(answered_row(run, token, now))
