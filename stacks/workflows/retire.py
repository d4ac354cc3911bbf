"""retire: how old images of the yard go: every day, after every bake, and by hand."""

import aws_cdk as cdk
from aws_cdk import aws_events as events

from stacks.constructs import permissions
from stacks.constructs.alarms import Alarms
from stacks.constructs.events import DeadLetterQueue, schedule
from stacks.constructs.function import Function, FunctionFactory
from stacks.constructs.names import by_name
from stacks.constructs.permissions.hosts import retire_images
from stacks.constructs.workflow import Workflow
from trainyard.protocol import keys

RUNS = ("train", "bake", "snapshot", "launch")
"""The workflows whose executions may need an image until they are over."""


class Retire(Workflow):
    """Its one function is a state of the bake too."""

    word = "retire"

    def __init__(self, scope: cdk.Stack, factory: FunctionFactory) -> None:
        super().__init__(scope, factory)
        self.retire = self._retire(
            [by_name(scope, "states", "stateMachine", f"{self.yard}-{word}") for word in RUNS]
        )
        self.machine = self.state_machine(timeout=cdk.Duration.hours(1))

    def rules(self, queue: DeadLetterQueue) -> None:
        schedule(
            self,
            "Daily",
            machine=self.machine,
            dead_letter_queue=queue,
            schedule=events.Schedule.rate(cdk.Duration.days(1)),
            description="Time to retire old images",
        )

    def alarms(self, alarms: Alarms) -> None:
        alarms.on(
            "retire-failed",
            self.machine.measured.metric_failed(),
            "Images or snapshots that are due could not be deleted and go on costing. images/report.txt in the bucket "
            "says which and why; the next execution tries again.",
        )

    def _retire(self, machines: list[str]) -> Function:
        settings = self.settings
        function = self.factory.make(
            self,
            "retire",
            minutes=15,
            IMAGE_PARAMETER=settings.image_parameter,
            PREVIOUS_IMAGE_PARAMETER=settings.previous_image_parameter,
            KEEP_IMAGES=str(settings.keep_images),
            KEEP_DAYS=str(settings.keep_days),
            STATE_MACHINE_ARNS=",".join(machines),
        )
        role = function.its_role
        retire_images(role, self.yard)
        permissions.anywhere(role, "ec2:DescribeImages", "ec2:DescribeSnapshots", "ec2:DescribeInstances")
        permissions.allow(role, ["states:ListExecutions"], machines)
        permissions.read_parameters(role, settings.image_parameter, "ssm:GetParameter")
        permissions.read_parameters(role, settings.previous_image_parameter, "ssm:GetParameter")
        permissions.use_ledger(role, self.table, "GetItem")
        permissions.write_objects(role, self.bucket, f"{keys.IMAGES}report.")
        return function
