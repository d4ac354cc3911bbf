"""Hosts that are to join a run which trains with fewer workers than it may have: asked for, watched, taken in."""

import json
from datetime import datetime
from typing import assert_never

from lambdas.aws import messages
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import attempt_row, event_row, host_row
from lambdas.core.run import growth
from lambdas.core.run.records import Records
from lambdas.core.run.updates import HostUpdate
from lambdas.steps.inputs import LaunchInput, ReleaseInput, Scope
from lambdas.steps.observability import logger
from lambdas.steps.signals.context import SignalContext
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.timeline import Source
from trainyard.values import serialization


def is_one(records: Records, instance: str) -> bool:
    """Whether the host is to join, and was not given up."""
    host = _find(records, instance)
    return host is not None and host.lost is None


def _find(records: Records, instance: str) -> HostRow | None:
    return next((host for host in records.newcomers() if host.instance == instance), None)


def go_on(context: SignalContext, now: datetime) -> str:
    """The next step of a run that could have more hosts. Patrol asks for it each minute once more may be asked for."""
    records = context.open_run()
    if records is None:
        return "the run is over, or unknown"
    context = context.about(records.run.attempt)
    match growth.decide(records, now):
        case growth.Ask():
            return _call(
                "train-launch", LaunchInput(run=context.run, attempt=context.attempt, more=True), context
            )
        case growth.Join(hosts=hosts, reason=reason):
            return _join(context, records, hosts, reason, now)
        case growth.GiveUp(hosts=hosts, reason=reason):
            return _give_up(context, records, hosts, reason, now)
        case growth.Wait(reason=reason):
            return reason
        case step:
            assert_never(step)


def lose(
    context: SignalContext, instance: str, reason: str, now: datetime, *, ended: datetime | None = None
) -> str | None:
    """This host will not join: the attempt, of which it is no part, trains on. None for one that was not to. `ended`:
    since when EC2 bills it no more, which nobody else would write down."""
    records = context.open_run()
    host = _find(records, instance) if records else None
    if records is None or host is None or (host.lost and ended is None):
        return None
    context = context.about(records.run.attempt)
    entry = context.entry("host lost", at=now, source=Source.WORKFLOW, instance=instance, reason=reason)
    over: HostUpdate = {"lost": host.lost or reason}
    if ended is not None:
        over["ended"] = ended
    context.ledger.write(host_row(context.run, instance, over), event_row(context.run, entry))
    return f"{instance} does not join: {go_on(context, now)}"


def _join(
    context: SignalContext, records: Records, hosts: tuple[str, ...], reason: str, now: datetime
) -> str:
    """Written first: what the gang then signals counts as the growth's doing. Every newcomer comes by here."""
    entry = context.entry("growing", at=now, source=Source.WORKFLOW, reason=reason, hosts=list(hosts))
    if records.attempts[context.attempt].growing is None:
        try:
            context.ledger.write(
                attempt_row(context.run, context.attempt, {"growing": now}, unless="growing"),
                event_row(context.run, entry),
            )
        except AlreadyWrittenError:
            return "another newcomer has asked the gang to leave"
    context.ask_to_stop(records, besides=())
    return f"{reason}: the gang is asked to checkpoint"


def _give_up(
    context: SignalContext, records: Records, hosts: tuple[str, ...], reason: str, now: datetime
) -> str:
    """They are ended at once: nobody else of this attempt would."""
    alive = [host for host in hosts if is_one(records, host)]
    entry = context.entry("host lost", at=now, source=Source.WORKFLOW, reason=reason, lost=alive)
    if alive:
        rows = [host_row(context.run, host, {"lost": reason}) for host in alive]
        context.ledger.write(*rows, event_row(context.run, entry))
    logger.info("%s: %s", context.run, reason)
    given = ReleaseInput(run=context.run, scope=Scope.LOST, attempt=context.attempt, lost=hosts)
    return _call("release", given, context)


def _call(word: str, given: LaunchInput | ReleaseInput, context: SignalContext) -> str:
    messages.invoke(f"{context.yard.yard}-{word}", json.dumps(serialization.to_json(given)).encode())
    return f"{word} is called"
