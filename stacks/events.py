"""Rules that lose nothing in silence: each tries again for a while, then leaves the event in a queue with an alarm."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.acknowledge import acknowledge


class DeadLetterQueue(sqs.Queue):
    """Where events end up that their function could not be given, or failed on again and again."""

    def __init__(self, scope: Construct, name: str, *, yard: str) -> None:
        super().__init__(
            scope,
            name,
            queue_name=f"{yard}-dead-letters",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
        )
        acknowledge(
            self, "SQS3", "This is the dead-letter queue; who reads it is a person, told by an alarm."
        )


def tell(
    scope: Construct,
    name: str,
    *,
    function: lambda_.IFunction,
    lost: sqs.IQueue,
    pattern: events.EventPattern,
    description: str,
    bus: events.IEventBus | None = None,
    saying: events.RuleTargetInput | None = None,
) -> events.Rule:
    """A rule that tells `function` of every event like `pattern`: the event itself, or what `saying` makes of it."""
    return events.Rule(
        scope,
        name,
        event_bus=bus,
        event_pattern=pattern,
        description=description,
        targets=[
            targets.LambdaFunction(
                function,
                dead_letter_queue=lost,
                max_event_age=cdk.Duration.hours(1),
                retry_attempts=20,
                event=saying,
            )
        ],
    )
