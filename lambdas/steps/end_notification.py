"""The notification of a run's end: sent once the ledger has the end, and once for each end.

The run stays among the open ones until its notification is sent. So patrol finds a run that has ended without one, and
calls Conclude, which sends it. Only a function that dies between sending and writing that down causes a second one.
"""

from datetime import datetime, timedelta
from typing import cast

from lambdas.aws import messages, s3
from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import event_row, no_open_row, run_row
from lambdas.core.notifications import Notification
from lambdas.core.notifications import run as run_texts
from lambdas.steps.conclusion import RunEnd
from lambdas.steps.observability import clock, logger, note
from trainyard.core.model.errors import TrainyardError
from trainyard.protocol import keys
from trainyard.protocol.summary import RunSummary
from trainyard.values import serialization

SENDING = timedelta(minutes=3)
"""Longer than a Conclude may take: one that began to send earlier has died."""


def send(end: RunEnd, topic: str, notification: Notification) -> None:
    """Send the notification of a run that has just ended. If it cannot be sent, the timeline says why, the end stays as
    it is, and patrol tries again."""
    if end.records is None:
        messages.publish(topic, notification)
        return
    try:
        _send_once(end.ledger, end.run, topic, notification)
    except TrainyardError as error:
        logger.exception("the notification of %s could not be sent", end.run)
        reason = f"The notification of this end could not be sent, and is tried again: {error}"
        end.ledger.write(event_row(end.run, note("warning", reason, at=end.now)))


def send_late(table_name: str, bucket: str, run: str, topic: str) -> None:
    """Send the notification of a run that ended without one, as its summary has it."""
    ledger = Ledger(table_name)
    records = ledger.read(run)
    if records is None or not records.run.lacks_notification:
        return
    summary = cast(RunSummary | None, s3.get_json(bucket, keys.summary(run)))
    if summary is None:
        logger.warning("%s gets no notification: its summary was deleted", run)
        ledger.write(no_open_row(run))
        return
    _send_once(ledger, run, topic, run_texts.ended(summary))


def _send_once(ledger: Ledger, run: str, topic: str, notification: Notification) -> None:
    now = clock()
    died_before = (("notifying", serialization.timestamp(now - SENDING)),)
    try:
        ledger.write(run_row(run, {"notifying": now}, only="created", unless="notified", rising=died_before))
    except AlreadyWrittenError:
        logger.info("the notification of %s is sent, or another call sends it", run)
        return
    messages.publish(topic, notification)
    _write_down(ledger, run, clock())


def _write_down(ledger: Ledger, run: str, now: datetime) -> None:
    try:
        ledger.write(run_row(run, {"notified": now}, only="created"), no_open_row(run))
    except AlreadyWrittenError:
        logger.info("the rows of %s were deleted meanwhile", run)
