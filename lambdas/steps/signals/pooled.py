"""Hosts in the pool: wiped and ready to be taken, taken back by EC2, given up by a person."""

from datetime import datetime

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import cooled_rows, event_row, no_warm_row, wiped_row
from lambdas.aws.ec2 import instances
from lambdas.core.run.warm_pool import WarmHost
from lambdas.steps.observability import logger
from lambdas.steps.signals.context import SignalContext
from trainyard.core.model.yard import warm
from trainyard.protocol.signals import Sent, Wiped
from trainyard.protocol.tags import Tag
from trainyard.protocol.timeline import Source
from trainyard.values.quantities import counted


def wiped(context: SignalContext, sent: Sent, signal: Wiped, now: datetime) -> str:
    """Nothing of its run is left on the host: from now on it may be taken. It says so until its tag says until when.
    With a reason it cannot be wiped, and ends itself."""
    host = context.ledger.warm_host(sent.instance)
    if host is None or host.run != context.run:
        return f"{sent.instance} is not in the pool for {context.run}"
    if signal.reason:
        return _cool(context, host, signal.reason, now)
    ready, until = host.wiped(now)
    if host.ready is None:
        reason = f"{host.instance} is wiped and waits for a run"
        entry = context.entry("warm", at=now, source=Source.HOST, instance=host.instance, reason=reason)
        try:
            context.ledger.write(wiped_row(host.instance, ready, until), event_row(context.run, entry))
        except AlreadyWrittenError:
            return f"{host.instance} has left the pool"
    instances.tag({warm.tag_of(host.run, until): [host.instance]}, Tag.POOL)
    return f"{host.instance} waits in the pool until {until:%H:%M:%S}"


def leave(context: SignalContext, instance: str, reason: str, at: datetime) -> str | None:
    """The host goes: nobody may take it any more. None for one that is not in the pool."""
    host = context.ledger.warm_host(instance)
    if host is None:
        return None
    return _cool(context, host, reason, max(at, host.since))


def cool(context: SignalContext, by: str, now: datetime) -> str:
    """Somebody wants the hosts to end that the run keeps in the pool: nobody may take one any more, and patrol ends
    them."""
    hosts = [host for host in context.ledger.pool() if host.run == context.run]
    for host in hosts:
        _cool(context, host, f"{by} wants it to end", now)
    instances.tag(
        {warm.tag_of(context.run, now): sorted(host.instance for host in hosts)} if hosts else {}, Tag.POOL
    )
    return f"{counted(len(hosts), 'host')} of {context.run} leave the pool"


def _cool(context: SignalContext, host: WarmHost, reason: str, at: datetime) -> str:
    said = f"{host.instance} leaves the pool, for ${host.dollars(at):.4f}: {reason}"
    entry = context.entry("left the pool", at=at, source=Source.WORKFLOW, instance=host.instance, reason=said)
    try:
        context.ledger.write(*cooled_rows([host], at), event_row(host.run, entry))
    except AlreadyWrittenError:
        logger.info("%s: taken by a run meanwhile, or its run's rows are gone", host.instance)
        if context.ledger.run(host.run) is None and context.ledger.warm_host(host.instance) == host:
            context.ledger.write(no_warm_row(host.instance))
        return f"{host.instance} has left the pool before"
    return said
