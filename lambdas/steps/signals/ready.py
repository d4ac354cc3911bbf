"""Readiness of hosts. Whenever a host that left is ready again, silent hosts are detected: hosts that neither leave nor
take orders."""

from datetime import datetime
from typing import assert_never

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import attempt_row, event_row, host_row
from lambdas.core.run import HostUpdate, silent_hosts
from lambdas.core.run.records import Records
from lambdas.core.run.recovery import Trouble
from lambdas.steps import attempts, orders
from lambdas.steps.observability import logger
from lambdas.steps.signals import joining
from lambdas.steps.signals.context import SignalContext
from trainyard.protocol.ledger.attempt import Ending
from trainyard.protocol.orders import Order, OrderKind
from trainyard.protocol.signals import Pulling, Ready, Sent, Streamed
from trainyard.protocol.timeline import Source


def ready(context: SignalContext, sent: Sent, signal: Ready, now: datetime) -> str:
    """Record that a host waits for the next start. A remaining host may be ready before its next attempt has begun. A
    host that was never started still names an older attempt."""
    records = context.open_run()
    instance = sent.instance
    if records is None or instance not in records.hosts:
        return "not a host of a live run"
    attempt = max(context.attempt, records.run.attempt)
    joins = joining.is_joining(records, instance)
    if joins:
        attempt = max(attempt, records.run.attempt + 1)
    if records.hosts[instance].ready < attempt:
        update: HostUpdate = {"ready": attempt, "ready_at": now, "address": signal.address}
        notes = (_unmanaged(signal.ssm_denied) if signal.ssm_denied else None, signal.pulled)
        reason = "; ".join(filter(None, notes)) or None
        entry = context.host_entry(sent, "ready", now, boot_seconds=signal.boot_seconds, reason=reason)
        events = [] if _has_finished(records) else [event_row(context.run, entry)]
        context.move(host_row(context.run, instance, update, rising=(("ready", attempt),)), *events)
        records = context.ledger.require(context.run)
    attempts.gather(context.ledger, records, attempt, now, lost={})
    if joins:
        return f"{instance} is ready to join: {joining.continue_growth(context, now)}"
    if attempt > records.run.attempt:
        _check_silent_hosts(context.for_attempt(records.run.attempt), records, now)
    elif behind := silent_hosts.find_stragglers(records, attempt):
        _call_back(context, behind, attempt)
    return f"{instance} is ready for attempt {attempt}"


def pulling(context: SignalContext, sent: Sent, signal: Pulling, now: datetime) -> str:
    """Record how much of its container image a host has."""
    records = context.open_run()
    if records is None or sent.instance not in records.hosts:
        return "not a host of a live run"
    context.ledger.write(
        event_row(context.run, context.host_entry(sent, "pulling", now, reason=signal.reason))
    )
    return f"{sent.instance} pulls its image"


def streamed(context: SignalContext, sent: Sent, signal: Streamed) -> str:
    """Record the requests of a host that streams data. They belong to the bill."""
    records = context.open_run()
    if records is None or sent.instance not in records.hosts:
        return "not a host of a live run"
    if signal.gets < 0:
        return f"{sent.instance} counts {signal.gets} requests, which no host can have sent"
    update: HostUpdate = {"gets": signal.gets}
    context.move(host_row(context.run, sent.instance, update, rising=(("gets", signal.gets),)))
    return f"{sent.instance} has sent {signal.gets} GET requests"


def _has_finished(records: Records) -> bool:
    """Return True if the last attempt succeeded, so that no further attempt follows."""
    last = records.attempts.get(records.run.attempt)
    return last is not None and last.ending is Ending.FINISHED


def _unmanaged(denied: str) -> str:
    """Return the timeline's reason for a host without Systems Manager."""
    return (
        f"Systems Manager cannot register this host: its role lacks {denied}. It trains, but sessions and images are "
        "impossible; give the role AmazonSSMManagedInstanceCore"
    )


def _call_back(context: SignalContext, hosts: tuple[str, ...], attempt: int) -> None:
    """Order hosts out of an attempt that ended at the moment of its start. They could not be asked to leave then, and
    an evaluator, which waits for no peer, would stay in it."""
    started = orders.find_started_attempt(context.yard.bucket_name, context.run)
    if 0 < started < attempt:
        order = Order(OrderKind.STOP, context.run, started, hosts)
        orders.give(order, bucket=context.yard.bucket_name, document=context.yard.stop_document)


def _check_silent_hosts(context: SignalContext, records: Records, now: datetime) -> None:
    """Handle the hosts that neither leave nor take orders, while a host that has left waits for them."""
    match silent_hosts.detect(records, context.attempt, now):
        case silent_hosts.LetThemLeave(reason=reason):
            logger.info("%s: %s", context.run, reason)
            context.beat(records)
        case silent_hosts.OrderToLeave(hosts=hosts, reason=reason):
            context.beat(records)
            _order_silent_hosts(context, records, hosts, reason, now)
        case silent_hosts.PresumeLost(hosts=hosts, all_of_them=all_of_them):
            have_it = orders.list_confirmations(context.yard.bucket_name, context.run, context.attempt)
            lost = tuple(host for host in hosts if all_of_them or host not in have_it)
            if lost:
                reason = silent_hosts.reason_of(lost, took_orders=all_of_them)
                _lose(context, records, lost, reason, now)
            else:
                context.beat(records)
        case silent_hosts.Wait(reason=reason):
            logger.info("%s: %s", context.run, reason)
        case decision:
            assert_never(decision)


def _order_silent_hosts(
    context: SignalContext, records: Records, hosts: tuple[str, ...], reason: str, now: datetime
) -> None:
    """Ask the silent hosts once, although every host that has left calls this."""
    asking = context.entry("asked to leave", at=now, source=Source.WORKFLOW, reason=reason)
    try:
        context.ledger.write(
            attempt_row(context.run, context.attempt, {"ordered_to_leave": now}, unless="ordered_to_leave"),
            event_row(context.run, asking),
        )
    except AlreadyWrittenError:
        return
    left = {host.instance for host in records.members(context.attempt)} - set(hosts)
    context.order_to_stop(records, besides=left)


def _lose(
    context: SignalContext, records: Records, lost: tuple[str, ...], reason: str, now: datetime
) -> None:
    """End the attempt with these hosts as lost."""
    step = records.attempts[context.attempt].last_step
    trouble = Trouble(error="HostLost", reason=reason, lost=lost, step=step)
    entry = context.entry("host lost", at=now, source=Source.WORKFLOW, reason=reason, lost=list(lost))
    context.ledger.write(*(host_row(context.run, host, {"lost": reason}) for host in lost))
    context.end(entry, now, trouble=trouble, step=step)
