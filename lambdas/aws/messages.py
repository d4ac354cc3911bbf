"""What goes out to others: a notice to whoever subscribed (SNS), an event to a function of the yard (Lambda)."""

from lambdas.aws.clients import client

MOST_SUBJECT = 100
"""Characters, printable ASCII: SNS refuses any other subject (API reference, Publish)."""


def publish(topic: str, subject: str, text: str) -> None:
    """The notice; of its subject what SNS takes."""
    plain = "".join(each if each.isascii() and each.isprintable() else "?" for each in subject)
    client("sns").publish(TopicArn=topic, Subject=plain[:MOST_SUBJECT], Message=text)


def invoke(function: str, payload: bytes) -> None:
    """Have a function of the yard called, without waiting for it."""
    client("lambda").invoke(FunctionName=function, InvocationType="Event", Payload=payload)
