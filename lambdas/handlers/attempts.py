"""How an attempt goes on and ends: shared by the states that wait and by the signals they wait for.

Both sides follow one order. A waiting state stores its token, then looks whether its news is there already;
a signal stores its news, then looks whether a token waits. So whichever comes second answers.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from lambdas.aws import documents, executions, instances
from lambdas.aws.ledger import (
    AlreadyWrittenError,
    Ledger,
    answered_row,
    attempt_row,
    event_row,
    run_row,
    token_row,
)
from lambdas.core import muster, pace, wire
from lambdas.core.records import WAITING, Records, TokenRow
from lambdas.core.recovery import Trouble
from lambdas.core.summary import Ending, ending_of
from lambdas.core.timeline import Entry
from lambdas.handlers.voice import logger, note

SSM_PATIENCE = timedelta(minutes=5)
"""How long after its `ready` a host may need to reach Systems Manager: the agent retries every few seconds."""


def await_news(
    ledger: Ledger, run: str, attempt: int, wait: str, token: str, now: datetime, *, state: str
) -> Records:
    """Store the token of a wait that begins; the records as they are after that."""
    ledger.write(
        token_row(run, attempt, wait, {"token": token, "stored": now}),
        run_row(run, {"state": state, "attempt": attempt}),
    )
    return ledger.known(run)


def settle(ledger: Ledger, records: Records, attempt: int, now: datetime) -> bool:
    """Answer whoever waits for this attempt's end, if it has ended; whether it has."""
    row = records.attempts.get(attempt)
    if row is None or row.ending is None:
        return False
    trouble = row.trouble
    for wait in WAITING:
        token = records.waiting(attempt, (wait,))
        if token and trouble:
            fail(ledger, records.run.run, token, trouble, now)
        elif token and wait == "train":
            answer = {"kind": "finished", "reason": row.reason or "the program finished", "step": row.to_step}
            succeed(ledger, records.run.run, token, answer, now)
    return True


def end(
    ledger: Ledger,
    run: str,
    attempt: int,
    entry: Entry,
    now: datetime,
    *,
    trouble: Trouble | None,
    step: int | None,
) -> None:
    """The attempt ended, well or badly: the first word counts, and its token is answered with it."""
    values = {
        "ending": ending_of(trouble.error) if trouble else Ending.FINISHED,
        "ended": now,
        "reason": trouble.reason if trouble else entry.reason,
        "error": trouble.error if trouble else None,
        "cause": trouble.to_cause() if trouble else None,
        "to_step": step,
    }
    try:
        ledger.write(attempt_row(run, attempt, values, unless="ending"), event_row(run, entry))
    except AlreadyWrittenError:
        logger.info("attempt %s of %s has ended already; %s changes nothing", attempt, run, entry.event)
    settle(ledger, ledger.known(run), attempt, now)


def gather(ledger: Ledger, records: Records, attempt: int, now: datetime, *, lost: Mapping[str, str]) -> None:
    """Is the gang complete? Then Muster is over. Systems Manager is asked only once every host is ready."""
    token = records.waiting(attempt, ("muster",))
    if token is None:
        return
    members = records.members(attempt)
    ids = [host.instance for host in members]
    ready = {host.instance for host in members if host.ready >= attempt}
    lost = dict(lost) | {host.instance: host.lost for host in members if host.lost}
    online = documents.online(ids) if len(ready) == len(ids) and not lost else frozenset()
    run, patience = records.run.run, now + timedelta(days=1)
    verdict = muster.judge(ids, ready=ready, online=online, lost=lost, now=now, deadline=patience)
    match verdict:
        case muster.Complete(reason=reason):
            paced = wire.to_json(pace.pace(records, attempt, now))
            entry = note("mustered", reason, at=now, attempt=attempt)
            ledger.write(attempt_row(run, attempt, {"mustered": now}), event_row(run, entry))
            succeed(ledger, run, token, {"kind": "mustered", "reason": reason} | paced, now)
        case muster.Failed(error=error, lost=gone, reason=reason):
            entry = note("host lost", reason, at=now, attempt=attempt)
            trouble = Trouble(error=error, reason=reason, lost=gone)
            end(ledger, run, attempt, entry, now, trouble=trouble, step=None)
        case muster.Waiting(reason=reason):
            logger.info("%s: %s", run, reason)
            latest = max((host.ready_at for host in members if host.ready_at), default=now)
            if len(ready) == len(ids) and now - latest > SSM_PATIENCE:
                trouble = unregistered(sorted(set(ids) - online))
                entry = note("not registered", trouble.reason, at=now, attempt=attempt)
                end(ledger, run, attempt, entry, now, trouble=trouble, step=None)


def unregistered(hosts: list[str]) -> Trouble:
    """Hosts that work and can say so, but that Systems Manager does not know: that is their permission."""
    return Trouble(
        error="AccessDenied",
        reason=f"Systems Manager does not know {', '.join(hosts)}, though they signalled ready: the host role lacks "
        "ssm:UpdateInstanceInformation (or ssmmessages:* or ec2messages:*), or there is no route to Systems Manager. "
        "Give the role AmazonSSMManagedInstanceCore",
        lost=tuple(hosts),
        final=True,
    )


def gone(records: Records, attempt: int) -> dict[str, str]:
    """Members of the gang that EC2 says are going or gone, with its reason."""
    members = {host.instance for host in records.members(attempt)}
    found = {host.id: host for host in instances.of_ids(members)}
    return {
        host.id: f"EC2 says {host.state} ({host.state_reason or 'no reason given'})"
        for host in found.values()
        if host.gone
    }


def succeed(ledger: Ledger, run: str, token: TokenRow, output: Mapping[str, Any], now: datetime) -> None:
    if not executions.succeed(token.token, output):
        logger.info("the token %s of %s was answered before", token.wait, run)
    ledger.write(answered_row(run, token, now))


def fail(ledger: Ledger, run: str, token: TokenRow, trouble: Trouble, now: datetime) -> None:
    if not executions.fail(token.token, trouble):
        logger.info("the token %s of %s was answered before", token.wait, run)
    ledger.write(answered_row(run, token, now))
