"""What goes out to others: a notice to whoever subscribed (SNS), an event to a function of the yard (Lambda)."""

from lambdas.aws.clients import client


def publish(topic: str, subject: str, text: str) -> None:
    client("sns").publish(TopicArn=topic, Subject=subject, Message=text)


def invoke(function: str, payload: bytes) -> None:
    """Have a function of the yard called, without waiting for it."""
    client("lambda").invoke(FunctionName=function, InvocationType="Event", Payload=payload)
