"""The notification of the end of a run. It is sent after the end is in the ledger, and once for each end.

The run stays open until its notification is sent. Therefore patrol finds a run that ended without one and calls
Conclude again. A duplicate is sent only if the function dies between sending the notification and recording it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from lambdas.aws import messages, s3
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import event_row, no_open_row, run_row
from lambdas.core.notifications import Notification
from lambdas.core.notifications import run as run_texts
from lambdas.steps.conclusion import RunEnd
from lambdas.steps.observability import clock, logger, note
from trainyard.core.model.errors import TrainyardError
from trainyard.protocol import keys, summary
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.summary import RunSummary
from trainyard.values import serialization

SENDING = timedelta(minutes=3)
"""The time after which a sender counts as dead. It is longer than the timeout of Conclude."""


def send(end: RunEnd, topic: str, notification: Notification) -> None:
    """Send the notification of a run that has just ended. If that fails, the timeline records the reason, the end stays
    as it is, and patrol tries again."""
    if end.records is None:
        messages.publish(topic, notification)
        return
    try:
        _send_once(end.ledger, end.records.run, topic, notification)
    except TrainyardError as error:
        logger.exception("the notification of %s could not be sent", end.run)
        reason = f"The notification of this end could not be sent and will be retried: {error}"
        end.ledger.write(event_row(end.run, note("warning", reason, at=end.now)))


def send_late(
    table_name: str,
    bucket: str,
    run: str,
    topic: str,
    text: Callable[[Mapping[str, Any]], Notification] = lambda document: run_texts.notify_end(
        summary.read(RunSummary, document)
    ),
) -> None:
    """Send the missing notification of a run from its summary, which `text` describes."""
    ledger = Ledger(table_name)
    records = ledger.read(run)
    if records is None or not records.run.lacks_notification:
        return
    document = s3.get_json(bucket, keys.summary(run))
    if document is None:
        logger.warning("%s gets no notification: its summary was deleted", run)
        ledger.write(no_open_row(run))
        return
    _send_once(ledger, records.run, topic, text(document))


def _send_once(ledger: Ledger, row: RunRow, topic: str, notification: Notification) -> None:
    run, now = row.run, clock()
    died_before = (("notifying", serialization.timestamp(now - SENDING)),)
    try:
        ledger.write(run_row(run, {"notifying": now}, only="created", unless="notified", rising=died_before))
    except AlreadyWrittenError:
        logger.info("the notification of %s is sent, or another call sends it", run)
        return
    messages.publish(topic, replace(notification, notify=tuple((row.job or {}).get("notify") or ())))
    _write_down(ledger, run, clock())


def _write_down(ledger: Ledger, run: str, now: datetime) -> None:
    try:
        ledger.write(run_row(run, {"notified": now}, only="created"), no_open_row(run))
    except AlreadyWrittenError:
        logger.info("the rows of %s were deleted meanwhile", run)
