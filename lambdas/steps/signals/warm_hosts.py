"""Hosts in the warm pool: wiped and available, taken back by EC2, or given up by a user."""

from datetime import datetime

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import delete_warm_row, event_row, pool_exit_rows, wiped_row
from lambdas.aws.ec2 import instances
from lambdas.core.run.warm_host import WarmHost
from lambdas.steps.observability import logger
from lambdas.steps.signals.context import SignalContext
from trainyard.core.model.yard import warm
from trainyard.protocol.signals import Sent, Wiped
from trainyard.protocol.tags import Tag
from trainyard.protocol.timeline import Source
from trainyard.values.quantities import format_count


def handle_wiped(context: SignalContext, sent: Sent, signal: Wiped, now: datetime) -> str:
    """Make a wiped host available. Its agent repeats the signal until the host has a tag with its end. A signal with a
    reason means that the host could not be wiped and ends itself."""
    host = context.ledger.warm_host(sent.instance)
    if host is None or host.run != context.run:
        return f"{sent.instance} is not in the warm pool for {context.run}"
    if signal.reason:
        return _remove(context, host, signal.reason, now)
    ready, until = host.wipe_times(now)
    if host.ready is None:
        reason = f"{host.instance} is wiped and waits for a run"
        entry = context.entry("warm", at=now, source=Source.HOST, instance=host.instance, reason=reason)
        try:
            context.ledger.write(wiped_row(host.instance, ready, until), event_row(context.run, entry))
        except AlreadyWrittenError:
            return f"{host.instance} has left the warm pool"
    instances.tag({warm.tag_of(host.run, until): [host.instance]}, Tag.POOL)
    return f"{host.instance} waits in the warm pool until {until:%H:%M:%S}"


def leave(context: SignalContext, instance: str, reason: str, at: datetime) -> str | None:
    """Remove a host that ends from the warm pool; return None if it is not in it."""
    host = context.ledger.warm_host(instance)
    if host is None:
        return None
    return _remove(context, host, reason, max(at, host.since))


def end(context: SignalContext, by: str, now: datetime) -> str:
    """Remove the hosts of a run from the warm pool for a user. Patrol terminates them."""
    hosts = [host for host in context.ledger.pool() if host.run == context.run]
    for host in hosts:
        _remove(context, host, f"{by} asked for its end", now)
    instances.tag(
        {warm.tag_of(context.run, now): sorted(host.instance for host in hosts)} if hosts else {}, Tag.POOL
    )
    return f"{format_count(len(hosts), 'host')} of {context.run} removed from the warm pool"


def _remove(context: SignalContext, host: WarmHost, reason: str, at: datetime) -> str:
    said = f"{host.instance} leaves the warm pool after ${host.dollars(at):.4f}: {reason}"
    entry = context.entry("left the pool", at=at, source=Source.WORKFLOW, instance=host.instance, reason=said)
    try:
        context.ledger.write(*pool_exit_rows([host], at), event_row(host.run, entry))
    except AlreadyWrittenError:
        logger.info("%s: claimed by a run in the meantime, or the rows of its run are gone", host.instance)
        if context.ledger.run(host.run) is None and context.ledger.warm_host(host.instance) == host:
            context.ledger.write(delete_warm_row(host.instance))
        return f"{host.instance} left the warm pool before"
    return said
