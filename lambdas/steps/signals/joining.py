"""Hosts that join a run which trains with fewer workers than allowed: request them, watch them, add them to the
gang."""

import json
from datetime import datetime
from typing import assert_never

from lambdas.aws import messages
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import attempt_row, event_row, host_row
from lambdas.core.run import HostUpdate, growth
from lambdas.core.run.records import Records
from lambdas.steps.inputs import LaunchInput, ReleaseInput, Scope
from lambdas.steps.observability import logger
from lambdas.steps.signals.context import SignalContext
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.timeline import Source
from trainyard.values import serialization


def is_joining(records: Records, instance: str) -> bool:
    """Return True if the host is joining and was not given up."""
    host = _find(records, instance)
    return host is not None and host.lost is None


def _find(records: Records, instance: str) -> HostRow | None:
    return next((host for host in records.joining() if host.instance == instance), None)


def continue_growth(context: SignalContext, now: datetime) -> str:
    """Take the next step of a run that may grow; return the result for the log. Patrol repeats this each minute while
    the run may request hosts."""
    records = context.open_run()
    if records is None:
        return "the run is over, or unknown"
    context = context.for_attempt(records.run.attempt)
    match growth.decide(records, now):
        case growth.RequestHosts():
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
    """Record that a joining host was lost, while the attempt trains on without it; return None for any other host.
    `ended` is the end of its bill, which no other function records."""
    records = context.open_run()
    host = _find(records, instance) if records else None
    if records is None or host is None or (host.lost and ended is None):
        return None
    context = context.for_attempt(records.run.attempt)
    entry = context.entry("host lost", at=now, source=Source.WORKFLOW, instance=instance, reason=reason)
    over: HostUpdate = {"lost": host.lost or reason}
    if ended is not None:
        over["ended"] = ended
    context.ledger.write(host_row(context.run, instance, over), event_row(context.run, entry))
    return f"{instance} does not join: {continue_growth(context, now)}"


def _join(
    context: SignalContext, records: Records, hosts: tuple[str, ...], reason: str, now: datetime
) -> str:
    """Record the growth, then ask the gang to checkpoint. The record comes first, so that later signals of the gang
    count as effects of the growth. Every joining host calls this."""
    entry = context.entry("growing", at=now, source=Source.WORKFLOW, reason=reason, hosts=list(hosts))
    if records.attempts[context.attempt].growing is None:
        try:
            context.ledger.write(
                attempt_row(context.run, context.attempt, {"growing": now}, unless="growing"),
                event_row(context.run, entry),
            )
        except AlreadyWrittenError:
            return "the gang was asked to leave for another joining host"
    context.order_to_stop(records, besides=())
    return f"{reason}: the gang is asked to checkpoint"


def _give_up(
    context: SignalContext, records: Records, hosts: tuple[str, ...], reason: str, now: datetime
) -> str:
    """Release joining hosts that were given up, because this attempt never includes them."""
    alive = [host for host in hosts if is_joining(records, host)]
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
