"""Signal: what hosts and AWS report reaches the run that it is about."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from constructs import Construct

from lambdas.core.edges.events import OF_HOSTS, OF_PEOPLE
from stacks.constructs import permissions
from stacks.constructs.events import DeadLetterQueue, rule
from stacks.constructs.function import FunctionFactory
from stacks.constructs.names import by_name
from stacks.constructs.permissions.hosts import command_hosts, mark_hosts
from stacks.constructs.workflow import Workflow
from stacks.documents import Document
from stacks.workflows.launch.dev_host import DevHostRole
from stacks.workflows.train.host import RunRole, TrainingHost
from trainyard.protocol import keys
from trainyard.protocol.tags import Tag

OWN = ("HostSignal", "PersonAsks")
"""The rules of the yard's own bus."""
STARTED = ("launch", "snapshot")
"""For people's dev hosts: brought up, and made an image."""
CALLED = ("train-launch", "release")
"""For runs that may have more workers than they have: to launch more, and to end those that do not get ready."""


class Signal(Construct):
    """EC2's events carry no tags: the function looks every instance up and drops strangers'."""

    def __init__(
        self,
        scope: cdk.Stack,
        factory: FunctionFactory,
        queue: DeadLetterQueue,
        bus: events.IEventBus,
        *,
        host: TrainingHost,
        train: Workflow,
    ) -> None:
        super().__init__(scope, "Signal")
        yard = factory.settings.yard
        stop = Document(self, "stop", yard=yard)
        function = factory.make(self, "signal", STOP_DOCUMENT=stop.document_name, HOST_ROLE_ID=host.role_id)
        role = function.its_role
        run_role = RunRole(self, factory.bucket, factory.settings, taken_by=role, s3_vpc=host.s3_vpc)
        function.add_environment("RUN_ROLE", run_role.role_arn)
        dev_role = DevHostRole(
            self, factory.bucket, factory.table, factory.settings, taken_by=role, s3_vpc=host.s3_vpc
        )
        function.add_environment("DEV_ROLE", dev_role.role_arn)
        permissions.answer_tasks(role, "Success", "Failure", "Heartbeat")
        permissions.anywhere(
            role,
            "ssm:DescribeInstanceInformation",
            "ssm:ListCommandInvocations",
            "ec2:DescribeInstances",
            "ec2:DescribeImages",
        )
        train.machine.stop_executions(role)
        command_hosts(role, stop.document_arn, yard)
        mark_hosts(role, yard, Tag.HOLD, Tag.POOL)
        permissions.read_objects(role, factory.bucket, keys.RUNS)
        permissions.list_objects(role, factory.bucket, keys.RUNS)
        permissions.write_objects(role, factory.bucket, keys.order(keys.ANY), keys.CREDENTIALS)
        permissions.use_ledger(role, factory.table, "GetItem", "Query", "PutItem", "UpdateItem", "DeleteItem")
        starts = {word: by_name(self, "states", "stateMachine", f"{yard}-{word}") for word in STARTED}
        permissions.allow(role, ["states:StartExecution"], [*starts.values()])
        for word, machine in starts.items():
            function.add_environment(f"{word.upper()}_STATE_MACHINE_ARN", machine)
        called = [by_name(self, "lambda", "function", f"{yard}-{word}") for word in CALLED]
        permissions.allow(role, ["lambda:InvokeFunction"], called)
        for name, description, pattern in _reports(yard):
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
    """By the rule's name. Hosts report and people ask on the yard's own bus, AWS reports on the account's."""
    return [
        ("HostSignal", "A host reports how it is", events.EventPattern(source=events.Match.prefix(OF_HOSTS))),
        (
            "PersonAsks",
            "A person stops a run, or wants a dev host",
            events.EventPattern(source=events.Match.prefix(OF_PEOPLE)),
        ),
        (
            "SpotInterruption",
            "EC2 takes a spot host back in two minutes",
            events.EventPattern(source=["aws.ec2"], detail_type=["EC2 Spot Instance Interruption Warning"]),
        ),
        (
            "HostGoing",
            "An instance is going or gone",
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
            "A document of the yard has ended",
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
