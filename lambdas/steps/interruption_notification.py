"""The notification of an interruption. Launch sends it at its first call for the next attempt."""

from datetime import datetime

from lambdas.aws.dynamodb.logbook import Logbook
from lambdas.core.notifications import interruption as interruption_texts
from lambdas.core.run.records import Records
from lambdas.steps import notification
from lambdas.steps.observability import logger
from trainyard.core.model.errors import TrainyardError


def send(yard: str, table_name: str, topic: str, records: Records, attempt: int, now: datetime) -> None:
    """Send the notification once. A failure is logged, because it must not delay the hosts of the attempt."""
    found = interruption_texts.notify_interruption(records.run, records.attempts[attempt - 1], yard=yard)
    try:
        notification.send(found, topic, Logbook(table_name), now)
    except TrainyardError:
        logger.exception("the notification of the interruption of %s could not be sent", records.run.run)
