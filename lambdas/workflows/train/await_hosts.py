"""AwaitHosts: wait for the whole gang. The function also explains an overdue AwaitHosts or Train."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from lambdas import environment
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import answered_row, event_row
from lambdas.aws.ec2 import instances
from lambdas.aws.ec2.instances import Instance
from lambdas.core.run import deadlines, readiness, silent_hosts
from lambdas.core.run.outcome import failure_update
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble, trouble_of
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import attempts, stored_signals
from lambdas.steps.attempts import Finished
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Answer, AttemptInput, Caught, Nothing
from lambdas.steps.observability import clock, logger, note
from lambdas.steps.signals import endings
from lambdas.steps.signals.context import SignalContext, SignalSettings
from trainyard.core.model.errors import Misconfigured
from trainyard.protocol import keys, signals
from trainyard.protocol.ledger.attempt import Ending
from trainyard.values import serialization
from trainyard.values.lazy import dataclass


class Overdue(StrEnum):
    """The overdue state."""

    AWAIT_HOSTS = "AwaitHosts"
    TRAIN = "Train"


@dataclass(frozen=True, kw_only=True)
class AwaitHostsInput(AttemptInput):
    """Wait for the gang, or explain an overdue state."""

    task_token: str | None = None
    overdue: Overdue | None = None
    """The state to explain."""


@dataclass(frozen=True, kw_only=True)
class Alive(Answer):
    """The answer for an overdue Train whose attempt continues. Train waits again for these seconds."""

    kind = "alive"
    train_seconds: int
    heartbeat_seconds: int


FRESH = deadlines.HEARTBEAT - timedelta(seconds=30)
"""The highest age of a sign of life. A host leaves one a minute. The last sign of a lost host is older than HEARTBEAT
by then, even if its clock is half a minute ahead."""
NEEDS = Needs(
    YardSettings,
    (
        may("call", "ec2:DescribeInstances"),
        may("invoke functions", "release"),
        may("read and list objects", keys.copies_of_signals(keys.ANY, keys.ANY)),
        may("read objects", keys.latest_checkpoint(keys.ANY)),
        may("answer tasks", "Success", "Failure"),
        may("use the ledger", "Query", "PutItem", "UpdateItem"),
    ),
)


@entry_point
def handler(given: AwaitHostsInput) -> Nothing | Caught | Finished | Alive:
    yard, now = environment.read(YardSettings), clock()
    ledger = Ledger(yard.table_name)
    if given.overdue:
        return _explain(yard, ledger, given.run, given.attempt, given.overdue, now)
    assert given.task_token is not None, "a wait has the token of its task"
    records = attempts.begin_wait(
        ledger, given.run, given.attempt, "await_hosts", given.task_token, now, state="AwaitHosts"
    )
    if attempts.settle(ledger, records, given.attempt, now):
        return Nothing()
    gone = _find_gone(records, given.attempt)
    barred = _explain_failed_start(records, gone)
    if barred:
        entry = note("host lost", barred.reason, at=now, attempt=given.attempt, lost=list(barred.lost))
        attempts.end(ledger, given.run, given.attempt, entry, now, trouble=barred, step=None)
    else:
        attempts.gather(ledger, records, given.attempt, now, lost=_reasons(gone))
    return Nothing()


def _explain(
    yard: YardSettings, ledger: Ledger, run: str, attempt: int, state: Overdue, now: datetime
) -> Caught | Finished | Alive:
    """Explain an overdue state from EC2, the bucket and the ledger, because a timeout names no host. Return Finished if
    the attempt has ended and only its event was lost, Alive if it continues."""
    records = ledger.require(run)
    known = records.attempts[attempt].ending is not None
    if state is Overdue.TRAIN and not known:
        records = _handle_stored_signals(yard, ledger, records, attempt, now)
    row = records.attempts[attempt]
    if row.ending is Ending.FINISHED:
        return Finished(reason=row.reason or "the program finished", step=row.to_step)
    trouble = trouble_of(row)
    if (
        state is Overdue.TRAIN
        and trouble is None
        and (sign := _find_sign_of_life(yard, records, attempt, now))
    ):
        reason = (
            f"no event of a host arrived for {deadlines.HEARTBEAT.total_seconds():g} s, but the chief's host "
        )
        reason += f"left a sign of life in the bucket at {sign:%H:%M:%S} UTC; the attempt continues"
        ledger.write(event_row(run, note("overdue", reason, at=now, attempt=attempt)))
        lasts, silent = deadlines.train_timeouts(records, attempt, now)
        return Alive(reason=reason, train_seconds=lasts, heartbeat_seconds=silent)
    if trouble is None:
        match state:
            case Overdue.AWAIT_HOSTS:
                trouble = _explain_late_gang(records, attempt, now)
            case Overdue.TRAIN:
                trouble = _explain_silent_gang(records, attempt, now)
            case _:
                assert_never(state)
    entry = note("overdue", trouble.reason, at=now, attempt=attempt, lost=list(trouble.lost))
    if not attempts.end_once(ledger, run, attempt, failure_update(trouble, now), event_row(run, entry)):
        ledger.write(event_row(run, entry))
    return Caught.of(trouble if known else _with_lost_gang(trouble, records, attempt))


def _handle_stored_signals(
    yard: YardSettings, ledger: Ledger, records: Records, attempt: int, now: datetime
) -> Records:
    """Handle the signals in the bucket as signal would have done; return the records after that.

    Step Functions no longer waits, and the task counts as answered first. Therefore no task is answered, and no host is
    asked to leave."""
    run, token = records.run.run, records.waiting(attempt, ("train",))
    if token:
        ledger.write(answered_row(run, token, now))
    heard = SignalContext(SignalSettings(**vars(yard), stop_document=""), ledger, run, attempt)
    for left in stored_signals.endings_of(yard.bucket_name, run, attempt):
        signal = left.sent.signal
        if isinstance(signal, signals.Ending) and (left.sent.run, left.sent.attempt) == (run, attempt):
            logger.info(
                "%s in the bucket: %s", signal.detail_type, endings.handle(heard, left.sent, signal, now)
            )
    return ledger.require(run)


def _find_sign_of_life(yard: YardSettings, records: Records, attempt: int, now: datetime) -> datetime | None:
    """Return the time of the last sign of life if it is so recent that only events can be missing, because the bus or
    the ledger was down. Return None if a host has left or is gone, or if the time of the run is used up."""
    left = list(stored_signals.list_signals(yard.bucket_name, records.run.run, attempt))
    progress = records.run.progress or {}
    seen = [each.at for each in left if not each.is_ending]
    seen += [serialization.parse_timestamp(str(progress["at"]))] if progress.get("attempt") == attempt else []
    newest = max(seen, default=None)
    has_left = any(each.is_ending for each in left)
    if newest is None or now - newest >= FRESH or has_left:
        return None
    if _find_gone(records, attempt) or deadlines.used_up(records, attempt, now, step=None):
        return None
    return newest


def _with_lost_gang(trouble: Trouble, records: Records, attempt: int) -> Trouble:
    """Return the trouble of an attempt whose hosts were not asked to leave. Hosts that are still in it cannot join the
    next attempt, so a whole gang is launched."""
    staying = set(silent_hosts.find_silent(records, attempt)) - set(trouble.lost)
    trained = (attempt, "train") in records.tokens
    return replace(trouble, lost=(), all_well=False) if trained and staying else trouble


def _explain_late_gang(records: Records, attempt: int, now: datetime) -> Trouble:
    members = records.members(attempt)
    ids = [host.instance for host in members]
    ready = records.ready(attempt)
    gone = _find_gone(records, attempt)
    barred = _explain_failed_start(records, gone)
    if barred:
        return barred
    lost = _reasons(gone)
    verdict = readiness.assess(ids, ready=ready, lost=lost, now=now, deadline=now)
    if isinstance(verdict, readiness.Failed):
        return Trouble(error=verdict.error, reason=verdict.reason, lost=verdict.lost)
    return Trouble(error="HostsNotReady", reason=f"{verdict.reason}, but its event did not arrive in time")


def _explain_silent_gang(records: Records, attempt: int, now: datetime) -> Trouble:
    step = records.attempts[attempt].last_step
    lost = _reasons(_find_gone(records, attempt))
    if lost:
        each = "; ".join(f"{host}: {why}" for host, why in lost.items())
        reason = f"hosts are gone and their events were lost ({each})"
        return Trouble(error="HostLost", reason=reason, lost=tuple(lost), step=step)
    over = deadlines.used_up(records, attempt, now, step=step)
    if over:
        return Trouble(error="LimitReached", reason=over, step=step, final=True)
    silent = silent_hosts.find_silent(records, attempt)
    reason = silent_hosts.reason_of_all(silent, deadlines.HEARTBEAT)
    return Trouble(error="HostLost", reason=reason, step=step)


def _find_gone(records: Records, attempt: int) -> tuple[Instance, ...]:
    """Return the members of the gang that EC2 reports as ending or gone."""
    members = {host.instance for host in records.members(attempt)}
    return tuple(host for host in instances.find_by_id(members) if host.gone)


def _reasons(gone: Collection[Instance]) -> dict[str, str]:
    return {host.id: f"EC2 reports {host.state_and_why}" for host in gone}


def _explain_failed_start(records: Records, gone: Collection[Instance]) -> Trouble | None:
    """Return the trouble of hosts that EC2 could not start because of a wrong launch request. Signal decides the same
    way."""
    why = {host.id: attempts.explain_failed_start(records.hosts[host.id], host) for host in gone}
    lost = {host: reason for host, reason in why.items() if reason}
    if not lost:
        return None
    return Trouble(error=Misconfigured.__name__, reason=next(iter(lost.values())), lost=tuple(lost))
