"""AwaitHosts: wait until the whole gang is there. Also names who is missing when a wait was too long."""

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
from lambdas.core.run.outcome import ended_badly
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble, trouble_of
from lambdas.environment import YardSettings
from lambdas.needs import Needs, may
from lambdas.steps import attempts, left_signals
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
    """The state that has waited too long."""

    AWAIT_HOSTS = "AwaitHosts"
    TRAIN = "Train"


@dataclass(frozen=True, kw_only=True)
class AwaitHostsInput(AttemptInput):
    """Wait with this `token`, or say why the wait of the state that is `overdue` was too long."""

    token: str | None = None
    overdue: Overdue | None = None


@dataclass(frozen=True, kw_only=True)
class Alive(Answer):
    """The answer of the look at an overdue Train if the attempt goes on: Train waits again, for these seconds."""

    kind = "alive"
    train_seconds: int
    heartbeat_seconds: int


FRESH = deadlines.HEARTBEAT - timedelta(seconds=30)
"""The oldest sign of life that counts. A host leaves one a minute; of a host that is lost, the last one is older than
HEARTBEAT by then, on a clock that may be half a minute ahead."""
NEEDS = Needs(
    YardSettings,
    (
        may("call", "ec2:DescribeInstances"),
        may("invoke functions", "release"),
        may("read and list objects", keys.words(keys.ANY, keys.ANY)),
        may("answer tasks", "Success", "Failure"),
        may("use the ledger", "Query", "PutItem", "UpdateItem"),
    ),
)


@entry_point
def handler(given: AwaitHostsInput) -> Nothing | Caught | Finished | Alive:
    yard, now = environment.read(YardSettings), clock()
    ledger = Ledger(yard.table_name)
    if given.overdue:
        return _overdue(yard, ledger, given.run, given.attempt, given.overdue, now)
    assert given.token is not None, "a wait has the token of its task"
    records = attempts.await_news(
        ledger, given.run, given.attempt, "await_hosts", given.token, now, state="AwaitHosts"
    )
    if attempts.settle(ledger, records, given.attempt, now):
        return Nothing()
    gone = _gone(records, given.attempt)
    barred = _barred(records, gone)
    if barred:
        entry = note("host lost", barred.reason, at=now, attempt=given.attempt, lost=list(barred.lost))
        attempts.end(ledger, given.run, given.attempt, entry, now, trouble=barred, step=None)
    else:
        attempts.gather(ledger, records, given.attempt, now, lost=_reasons(gone))
    return Nothing()


def _overdue(
    yard: YardSettings, ledger: Ledger, run: str, attempt: int, state: Overdue, now: datetime
) -> Caught | Finished | Alive:
    """Return the failure in facts, in place of a timeout that names no host: EC2, the bucket and the ledger are asked.
    Return Finished if the attempt is over and only the news of it was lost, Alive if it goes on."""
    records = ledger.known(run)
    known = records.attempts[attempt].ending is not None
    if state is Overdue.TRAIN and not known:
        records = _hear_what_was_left(yard, ledger, records, attempt, now)
    row = records.attempts[attempt]
    if row.ending is Ending.FINISHED:
        return Finished(reason=row.reason or "the program finished", step=row.to_step)
    trouble = trouble_of(row)
    if state is Overdue.TRAIN and trouble is None and (sign := _sign_of_life(yard, records, attempt, now)):
        reason = f"no event of a host has come for {deadlines.HEARTBEAT.total_seconds():g} s, but the chief's host "
        reason += f"has left a sign of life in the bucket at {sign:%H:%M:%S} UTC: the attempt goes on"
        ledger.write(event_row(run, note("overdue", reason, at=now, attempt=attempt)))
        lasts, silent = deadlines.train_timeouts(records, attempt, now)
        return Alive(reason=reason, train_seconds=lasts, heartbeat_seconds=silent)
    if trouble is None:
        match state:
            case Overdue.AWAIT_HOSTS:
                trouble = _late_gang(records, attempt, now)
            case Overdue.TRAIN:
                trouble = _silent_gang(records, attempt, now)
            case _:
                assert_never(state)
    entry = note("overdue", trouble.reason, at=now, attempt=attempt, lost=list(trouble.lost))
    if not attempts.end_once(ledger, run, attempt, ended_badly(trouble, now), event_row(run, entry)):
        ledger.write(event_row(run, entry))
    return Caught.of(trouble if known else _as_nobody_was_asked(trouble, records, attempt))


def _hear_what_was_left(
    yard: YardSettings, ledger: Ledger, records: Records, attempt: int, now: datetime
) -> Records:
    """Do what signal would have done had the hosts' last words reached it; the records as they are then.

    Step Functions does not wait any more, and says so here first: so nobody is answered, and nobody asked to leave."""
    run, token = records.run.run, records.waiting(attempt, ("train",))
    if token:
        ledger.write(answered_row(run, token, now))
    heard = SignalContext(SignalSettings(**vars(yard), stop_document=""), ledger, run, attempt)
    for left in left_signals.endings_of(yard.bucket_name, run, attempt):
        signal = left.sent.signal
        if isinstance(signal, signals.Ending) and (left.sent.run, left.sent.attempt) == (run, attempt):
            logger.info("%s was left: %s", signal.word, endings.handle(heard, left.sent, signal, now))
    return ledger.known(run)


def _sign_of_life(yard: YardSettings, records: Records, attempt: int, now: datetime) -> datetime | None:
    """Return when the attempt was last seen to go on, if that is so recent that only its events can be missing: the bus
    or the ledger was down. Return None if a host has left it or is gone, or if its time is used up."""
    left = list(left_signals.of_attempt(yard.bucket_name, records.run.run, attempt))
    progress = records.run.progress or {}
    seen = [each.at for each in left if not each.is_ending]
    seen += [serialization.parse_timestamp(str(progress["at"]))] if progress.get("attempt") == attempt else []
    newest = max(seen, default=None)
    has_left = any(each.is_ending for each in left)
    if newest is None or now - newest >= FRESH or has_left:
        return None
    if _gone(records, attempt) or deadlines.used_up(records, attempt, now, step=None):
        return None
    return newest


def _as_nobody_was_asked(trouble: Trouble, records: Records, attempt: int) -> Trouble:
    """Hosts that are in this attempt still cannot go on into the next one: then a whole gang is launched."""
    staying = set(silent_hosts.those_within(records, attempt)) - set(trouble.lost)
    trained = (attempt, "train") in records.tokens
    return replace(trouble, lost=(), all_well=False) if trained and staying else trouble


def _late_gang(records: Records, attempt: int, now: datetime) -> Trouble:
    members = records.members(attempt)
    ids = [host.instance for host in members]
    ready = records.ready(attempt)
    gone = _gone(records, attempt)
    barred = _barred(records, gone)
    if barred:
        return barred
    lost = _reasons(gone)
    verdict = readiness.assess(ids, ready=ready, lost=lost, now=now, deadline=now)
    if isinstance(verdict, readiness.Failed):
        return Trouble(error=verdict.error, reason=verdict.reason, lost=verdict.lost)
    return Trouble(error="HostsNotReady", reason=f"{verdict.reason}, but nobody heard of it in time")


def _silent_gang(records: Records, attempt: int, now: datetime) -> Trouble:
    step = records.attempts[attempt].reached
    lost = _reasons(_gone(records, attempt))
    if lost:
        each = "; ".join(f"{host}: {why}" for host, why in lost.items())
        reason = f"hosts are gone and no event told of it ({each})"
        return Trouble(error="HostLost", reason=reason, lost=tuple(lost), step=step)
    over = deadlines.used_up(records, attempt, now, step=step)
    if over:
        return Trouble(error="LimitReached", reason=over, step=step, final=True)
    silent = silent_hosts.those_within(records, attempt)
    reason = silent_hosts.reason_of_all(silent, deadlines.HEARTBEAT)
    return Trouble(error="HostLost", reason=reason, step=step)


def _gone(records: Records, attempt: int) -> tuple[Instance, ...]:
    """Members of the gang that EC2 says are going or gone."""
    members = {host.instance for host in records.members(attempt)}
    return tuple(host for host in instances.of_ids(members) if host.gone)


def _reasons(gone: Collection[Instance]) -> dict[str, str]:
    return {host.id: f"EC2 says {host.state_and_why}" for host in gone}


def _barred(records: Records, gone: Collection[Instance]) -> Trouble | None:
    """A host that EC2 could not start for a fault of whoever launched it, as signal judges it, too."""
    why = {host.id: attempts.could_not_start(records.hosts[host.id], host) for host in gone}
    lost = {host: reason for host, reason in why.items() if reason}
    if not lost:
        return None
    return Trouble(error=Misconfigured.__name__, reason=next(iter(lost.values())), lost=tuple(lost))
