"""SNS: tell whoever subscribed how a run ended."""

from lambdas.aws.clients import client


def publish(topic: str, subject: str, text: str) -> None:
    client("sns").publish(TopicArn=topic, Subject=subject, Message=text)
