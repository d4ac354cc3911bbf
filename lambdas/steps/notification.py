"""Send notifications, each of them once: the logbook records what was sent."""

from datetime import datetime

from lambdas.aws import messages
from lambdas.aws.dynamodb.logbook import Logbook
from lambdas.core.notifications import Notification


def send(notification: Notification, topic: str, book: Logbook, now: datetime) -> None:
    """Send the notification, unless it has a key and the logbook has it already. Raises Infrastructure."""
    if not notification.once_key or book.once(notification.once_key, now):
        messages.publish(topic, notification)
