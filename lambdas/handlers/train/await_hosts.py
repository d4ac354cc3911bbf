"""AwaitHosts: wait until the whole gang is there. Also names who is missing when a wait was too long."""

from datetime import datetime
from typing import assert_never

from lambdas import settings
from lambdas.aws import instances, ssm
from lambdas.aws.ledger import Ledger, event_row
from lambdas.core.edges.common import Caught, Nothing
from lambdas.core.edges.train import AwaitHostsInput, Overdue
from lambdas.core.run import deadlines, readiness
from lambdas.core.run.records import Records, ended_badly
from lambdas.core.run.recovery import Trouble
from lambdas.steps import attempts
from lambdas.steps.entry_point import entry_point
from lambdas.steps.observability import clock, note


@entry_point
def handler(given: AwaitHostsInput) -> Nothing | Caught:
    ledger, now = Ledger(settings.read(settings.YardSettings).table_name), clock()
    if given.overdue:
        return _overdue(ledger, given.run, given.attempt, given.overdue, now)
    assert given.token is not None, "a wait has the token of its task"
    records = attempts.await_news(
        ledger, given.run, given.attempt, "await_hosts", given.token, now, state="AwaitHosts"
    )
    if not attempts.settle(ledger, records, given.attempt, now):
        attempts.gather(ledger, records, given.attempt, now, lost=_gone(records, given.attempt))
    return Nothing()


def _overdue(ledger: Ledger, run: str, attempt: int, state: Overdue, now: datetime) -> Caught:
    """The failure in facts, in place of a timeout that names nobody: EC2, SSM and the ledger are asked."""
    records = ledger.known(run)
    trouble = records.attempts[attempt].trouble
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
    return Caught.of(trouble)


def _late_gang(records: Records, attempt: int, now: datetime) -> Trouble:
    members = records.members(attempt)
    ids = [host.instance for host in members]
    ready = records.ready(attempt)
    lost = _gone(records, attempt)
    online = ssm.online(ids)
    if not lost and len(ready) == len(ids):
        return attempts.unregistered(sorted(set(ids) - online))
    verdict = readiness.assess(ids, ready=ready, online=online, lost=lost, now=now, deadline=now)
    gone = verdict.lost if isinstance(verdict, readiness.Failed) else ()
    error = verdict.error if isinstance(verdict, readiness.Failed) else "HostsNotReady"
    return Trouble(error=error, reason=verdict.reason, lost=gone)


def _silent_gang(records: Records, attempt: int, now: datetime) -> Trouble:
    step = records.run.step
    lost = _gone(records, attempt)
    if lost:
        each = "; ".join(f"{host}: {why}" for host, why in lost.items())
        reason = f"hosts are gone and no event told of it ({each})"
        return Trouble(error="HostLost", reason=reason, lost=tuple(lost), step=step)
    over = deadlines.used_up(records, attempt, now, step=step)
    if over:
        return Trouble(error="LimitReached", reason=over, step=step, final=True)
    minutes = deadlines.HEARTBEAT.total_seconds() / 60
    reason = (
        f"all hosts are there, but for {minutes:g} minutes the program has neither reported progress nor printed: "
        "it hangs; its log in the bucket shows how far it came"
    )
    return Trouble(error="States.HeartbeatTimeout", reason=reason, step=step)


def _gone(records: Records, attempt: int) -> dict[str, str]:
    """Members of the gang that EC2 says are going or gone, with its reason."""
    members = {host.instance for host in records.members(attempt)}
    return {host.id: f"EC2 says {host.state_and_why}" for host in instances.of_ids(members) if host.gone}
