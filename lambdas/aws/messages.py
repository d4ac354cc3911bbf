"""Notifications (SNS), dead letters (SQS) and calls of functions (Lambda)."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from lambdas.aws.clients import client
from trainyard.core.model.errors import AccessDenied, Infrastructure, ServiceUnavailable

if TYPE_CHECKING:
    from lambdas.core.notifications import Notification

MOST_SUBJECT = 100
"""The most characters of a subject, which must be printable ASCII (API reference, Publish)."""

CALLED_ERRORS = {each.__name__: each for each in (ServiceUnavailable, AccessDenied)}
"""Errors of a called function after which the workflow calls again."""


def publish(topic: str, notification: "Notification") -> None:
    """Publish the notification with a shortened, printable subject. Raises Infrastructure if SNS refuses it."""
    plain = "".join(each if each.isascii() and each.isprintable() else "?" for each in notification.subject)
    attributes = {
        name.value: {"DataType": "String", "StringValue": value}
        for name, value in notification.attributes.items()
    }
    try:
        client("sns").publish(
            TopicArn=topic,
            Subject=plain[:MOST_SUBJECT],
            Message=notification.text,
            MessageAttributes=attributes,
        )
    except ClientError as error:
        raise Infrastructure(f"SNS did not accept the notification {plain!r}: {error}") from error


def give_up(queue: str, letter: Mapping[str, Any]) -> None:
    """Put a letter that cannot be delivered into the queue of dead letters."""
    client("sqs").send_message(QueueUrl=queue, MessageBody=json.dumps(letter))


def invoke(function: str, payload: bytes) -> None:
    """Call a function of the yard asynchronously."""
    client("lambda").invoke(FunctionName=function, InvocationType="Event", Payload=payload)


def call(function: str, payload: bytes) -> dict[str, Any]:
    """Call a function of the yard and return its answer. If the function fails, raises ServiceUnavailable or
    AccessDenied as it did, or Infrastructure for any other error."""
    answer = client("lambda", read_seconds=60.0).invoke(FunctionName=function, Payload=payload)
    found: dict[str, Any] = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        kind = CALLED_ERRORS.get(str(found.get("errorType")), Infrastructure)
        raise kind(f"{function} failed: {found.get('errorMessage', found)}")
    return found
