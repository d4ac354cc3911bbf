"""Notifications that are sent once. The logbook records them."""

from datetime import datetime

from lambdas.aws import messages
from lambdas.aws.dynamodb.logbook import Logbook
from lambdas.core.notifications import Notification


def send(notification: Notification, topic: str, book: Logbook, now: datetime) -> None:
    """Send the notification, unless it has a key that the logbook contains. Raises Infrastructure."""
    if not notification.once_key or book.once(notification.once_key, now):
        messages.publish(topic, notification)
