"""Rules that lose no event silently: each retries for a while, then puts the event into a queue with an alarm."""

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge, skip
from stacks.constructs.function import Function
from stacks.constructs.machine import StateMachine
from stacks.constructs.names import by_name
from stacks.constructs.permissions import account_principal

BADLY = ("FAILED", "TIMED_OUT", "ABORTED")
"""Statuses of a failed execution."""
STATUS = events.EventField.from_path("$.detail.status")
"""The status in the input of a target."""


class DeadLetterQueue(sqs.Queue):
    """A queue for events that could not be delivered, or on which the target kept failing."""

    def __init__(self, scope: Construct, name: str, *, yard: str) -> None:
        self._named = f"{yard}-dead-letters"
        super().__init__(
            scope,
            name,
            queue_name=self._named,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
        )
        skip(self, {"CKV_AWS_27": "SQS encrypts it with its own key (SQS_MANAGED)."})
        acknowledge(self, "SQS3", "This is the dead-letter queue; an operator reads it after its alarm.")
        rules = by_name(self, "events", "rule/*")
        self.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("events.amazonaws.com")],
                actions=["sqs:SendMessage"],
                resources=[self.queue_arn],
                conditions={"ArnLike": {"aws:SourceArn": rules}},
            )
        )
        self.named = sqs.Queue.from_queue_arn(self, "Named", by_name(self, "sqs", self._named))
        """The queue for other stacks. Their rules leave its policy unchanged, which may have 20 statements."""

    def waiting(self) -> cloudwatch.Metric:
        """Return the metric of messages in the queue, for any stack."""
        return cloudwatch.Metric(
            namespace="AWS/SQS",
            metric_name="ApproximateNumberOfMessagesVisible",
            dimensions_map={"QueueName": self._named},
            statistic="Maximum",
        )

    def keep_failures(self, function: Function) -> None:
        """Send events to the queue on which `function` keeps failing. Function's own `on_failure` would also grant
        reading the queue."""
        if function.node.try_find_child("Failures"):
            return
        place = Construct(function, "Failures")
        sends = iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[self.named.queue_arn])
        may = iam.Policy(place, "Policy", roles=[function.its_role], statements=[sends])
        config = lambda_.CfnEventInvokeConfig(
            place,
            "Resource",
            function_name=function.function_name,
            qualifier="$LATEST",
            destination_config={"onFailure": {"destination": self.named.queue_arn}},
        )
        config.node.add_dependency(may)  # Lambda checks the permission before it accepts the setting


def rule(
    scope: Construct,
    name: str,
    *,
    function: Function,
    dead_letter_queue: DeadLetterQueue,
    pattern: events.EventPattern,
    description: str,
    bus: events.IEventBus | None = None,
    input: Mapping[str, Any] | None = None,
) -> events.Rule:
    """Call `function` with every event that matches `pattern`: with the event itself, or with `input` made of it.
    Undeliverable events go to the queue, and so do events on which the function fails."""
    dead_letter_queue.keep_failures(function)
    target = targets.LambdaFunction(
        function,
        event=None if input is None else events.RuleTargetInput.from_object(input),
        **_keep_failed(dead_letter_queue),
    )
    return events.Rule(
        scope, name, event_bus=bus, event_pattern=pattern, description=description, targets=[target]
    )


def after_execution(
    scope: Construct,
    name: str,
    *,
    of: Sequence[StateMachine],
    function: Function,
    dead_letter_queue: DeadLetterQueue,
    description: str,
    input: Mapping[str, Any] | None = None,
) -> events.Rule:
    """Call `function` with run, execution and `input` when an execution of these machines fails."""
    run, execution = (events.EventField.from_path(f"$.detail.{each}") for each in ("name", "executionArn"))
    return rule(
        scope,
        name,
        function=function,
        dead_letter_queue=dead_letter_queue,
        description=description,
        pattern=events.EventPattern(
            source=["aws.states"],
            detail_type=["Step Functions Execution Status Change"],
            detail={"stateMachineArn": [each.arn_in(scope) for each in of], "status": list(BADLY)},
        ),
        input={"run": run, "execution": execution, **(input or {})},
    )


def schedule(
    scope: Construct,
    name: str,
    *,
    machine: sfn.IStateMachine,
    dead_letter_queue: DeadLetterQueue,
    schedule: events.Schedule,
    description: str,
) -> events.Rule:
    """Start an execution of `machine` without an input on a schedule."""
    role = iam.Role(scope, "EventsRole", assumed_by=account_principal("events.amazonaws.com"))
    machine.grant_start_execution(role)
    target = targets.SfnStateMachine(
        machine, role=role, input=events.RuleTargetInput.from_object({}), **_keep_failed(dead_letter_queue)
    )
    return events.Rule(scope, name, description=description, schedule=schedule, targets=[target])


def _keep_failed(queue: DeadLetterQueue) -> dict[str, Any]:
    return {"dead_letter_queue": queue.named, "max_event_age": cdk.Duration.hours(1), "retry_attempts": 20}
