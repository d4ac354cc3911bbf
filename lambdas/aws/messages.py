"""Messages to others: a notification to subscribers (SNS), an event to a function of the yard (Lambda)."""

from botocore.exceptions import ClientError

from lambdas.aws.clients import client
from lambdas.core.notifications import Notification
from trainyard.core.model.errors import Infrastructure

MOST_SUBJECT = 100
"""Characters, printable ASCII: SNS refuses any other subject (API reference, Publish)."""


def publish(topic: str, notification: Notification) -> None:
    """Publish the notification, with as much of the subject as SNS takes. Raises Infrastructure if SNS refuses it."""
    plain = "".join(each if each.isascii() and each.isprintable() else "?" for each in notification.subject)
    try:
        client("sns").publish(TopicArn=topic, Subject=plain[:MOST_SUBJECT], Message=notification.text)
    except ClientError as error:
        raise Infrastructure(f"SNS did not take the notification {plain!r}: {error}") from error


def invoke(function: str, payload: bytes) -> None:
    """Have a function of the yard called, without waiting for it."""
    client("lambda").invoke(FunctionName=function, InvocationType="Event", Payload=payload)
