"""Signal: delivers reports of hosts and AWS to the run that they are about."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from constructs import Construct

from lambdas.workflows import signal
from stacks.constructs.events import DeadLetterQueue, rule
from stacks.constructs.factory import FunctionFactory
from stacks.documents import Document
from stacks.workflows.dev_host.role import DevHostRole
from stacks.workflows.train.host import RunRole, TrainingHost
from trainyard.protocol import sources

OWN = ("HostSignal", "PersonAsks")
"""Rules on the yard's own bus."""


class Signal(Construct):
    """The function and its rules. EC2's events have no tags, so the function looks up every instance, and drops events
    of other instances than the yard's."""

    def __init__(
        self,
        scope: cdk.Stack,
        factory: FunctionFactory,
        queue: DeadLetterQueue,
        bus: events.IEventBus,
        *,
        host: TrainingHost,
    ) -> None:
        super().__init__(scope, "Signal")
        settings, bucket = factory.settings, factory.bucket
        Document(self, "stop", yard=settings.yard)
        function = factory.make(self, signal, host_role_id=host.role_id)
        run_role = RunRole(self, bucket, settings, taken_by=function.its_role, s3_vpc=host.s3_vpc)
        function.add_environment("RUN_ROLE", run_role.role_arn)
        dev_role = DevHostRole(
            self, bucket, factory.table, settings, taken_by=function.its_role, s3_vpc=host.s3_vpc
        )
        function.add_environment("DEV_ROLE", dev_role.role_arn)
        for name, description, pattern in _reports(settings.yard):
            rule(
                scope,
                name,
                function=function,
                dead_letter_queue=queue,
                description=description,
                pattern=pattern,
                bus=bus if name in OWN else None,
            )


def _reports(yard: str) -> list[tuple[str, str, events.EventPattern]]:
    """Return the rules by name. Hosts and users send to the yard's own bus, AWS to the account's."""
    return [
        (
            "HostSignal",
            "A host reports how it is",
            events.EventPattern(source=events.Match.prefix(sources.HOSTS)),
        ),
        (
            "PersonAsks",
            "A user stops a run, changes a study, or requests a dev host",
            events.EventPattern(
                source=events.Match.any_of(*map(events.Match.prefix, (sources.PEOPLE, sources.OPERATORS)))
            ),
        ),
        (
            "SpotInterruption",
            "EC2 interrupts a spot host in two minutes",
            events.EventPattern(source=["aws.ec2"], detail_type=["EC2 Spot Instance Interruption Warning"]),
        ),
        (
            "HostGoing",
            "An instance is ending or has ended",
            events.EventPattern(
                source=["aws.ec2"],
                detail_type=["EC2 Instance State-change Notification"],
                detail={"state": ["shutting-down", "terminated", "stopping", "stopped"]},
            ),
        ),
        (
            "ImageMade",
            "An image is ready or has failed",
            events.EventPattern(
                source=["aws.ec2"],
                detail_type=["EC2 AMI State Change"],
                detail={"State": ["available", "failed"]},
            ),
        ),
        (
            "CommandEnded",
            "An SSM command of the yard has ended",
            events.EventPattern(
                source=["aws.ssm"],
                detail_type=["EC2 Command Status-change Notification"],
                detail={
                    "document-name": [{"prefix": f"{yard}-"}],
                    "status": ["Success", "Failed", "TimedOut", "Cancelled"],
                },
            ),
        ),
    ]
