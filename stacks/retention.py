"""How old images of the yard go: every day, after every bake, and by hand."""

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from stacks import permissions
from stacks.function import Function
from stacks.permissions import anywhere, use_ledger, write_objects
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from stacks.workflow import Workflow

RUNS = ("train", "bake", "snapshot", "launch")
"""The workflows whose executions may need an image until they are over."""


class Retention(Construct):
    """The function `retire` and its workflow; what calls it daily is with the other rules."""

    def __init__(
        self,
        scope: cdk.Stack,
        name: str,
        settings: YardSettings,
        storage: StorageStack,
        layer: lambda_.ILayerVersion,
    ) -> None:
        super().__init__(scope, name)
        self.function = self._function(scope, settings, storage, layer)
        self.workflow = Workflow(
            self, "retire", yard=settings.yard, functions=[self.function], timeout=cdk.Duration.hours(1)
        )
        cdk.CfnOutput(scope, "RetireStateMachineArn", value=self.workflow.state_machine_arn)

    def _function(
        self, stack: cdk.Stack, settings: YardSettings, storage: StorageStack, layer: lambda_.ILayerVersion
    ) -> Function:
        machines = [machine_arn(stack, settings.yard, word) for word in RUNS]
        function = Function(
            self,
            "retire",
            yard=settings.yard,
            dependencies=layer,
            minutes=15,
            environment={
                "YARD": settings.yard,
                "TABLE_NAME": storage.table.table_name,
                "BUCKET_NAME": storage.bucket.bucket_name,
                "IMAGE_PARAMETER": settings.image_parameter,
                "PREVIOUS_IMAGE_PARAMETER": settings.previous_image_parameter,
                "KEEP_IMAGES": str(settings.keep_images),
                "KEEP_DAYS": str(settings.keep_days),
                "STATE_MACHINE_ARNS": ",".join(machines),
            },
        )
        role = function.its_role
        permissions.retire_images(role, settings.yard)
        anywhere(role, "ec2:DescribeImages", "ec2:DescribeSnapshots", "ec2:DescribeInstances")
        permissions.allow(role, ["states:ListExecutions"], machines)
        permissions.read_parameters(role, settings.image_parameter, "ssm:GetParameter")
        permissions.read_parameters(role, settings.previous_image_parameter, "ssm:GetParameter")
        use_ledger(role, storage.table, "GetItem")
        write_objects(role, storage.bucket, "images/report.")
        return function


def machine_arn(stack: cdk.Stack, yard: str, word: str) -> str:
    """By its name: the workflows of later stacks are not made yet, and this stack may not refer to them."""
    return stack.format_arn(
        service="states",
        resource="stateMachine",
        resource_name=f"{yard}-{word}",
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
