"""Hosts whose hardware has failed: given up, and named in the ledger for the plans of the next day."""

from datetime import datetime

from lambdas.aws.dynamodb.rows import event_row, host_row, quarantine_row, run_row
from lambdas.core.capacity import quarantine
from lambdas.steps.signals.context import SignalContext
from trainyard.protocol.signals import Sent


def give_up(context: SignalContext, sent: Sent, fault: str, now: datetime) -> None:
    """Record that the hardware of a host has failed. Raises AlreadyWrittenError if this run has not launched it."""
    records = context.ledger.require(context.run)
    host = records.hosts.get(sent.instance)
    lost = host_row(context.run, sent.instance, {"lost": fault, "faulty": fault})
    if host is None or host.faulty:
        context.ledger.write(lost)
        return
    row = quarantine.make_row(host, context.run, fault, now)
    said = quarantine.describe(row)
    entry = context.host_entry(sent, "quarantined", now, reason=said)
    findings = {**records.run.findings, f"hardware {sent.instance}": said}
    context.ledger.write(
        lost, quarantine_row(row), event_row(context.run, entry), run_row(context.run, {"findings": findings})
    )
