"""Images of hosts, and hosts from images: the workflows snapshot and launch, and what train has of them."""

from collections.abc import Callable, Sequence

import aws_cdk as cdk
from constructs import Construct

from lambdas.core.patrol import hold
from stacks import permissions
from stacks.documents import Document
from stacks.function import Function
from stacks.images import ImagesStack
from stacks.network import NetworkStack
from stacks.permissions import anywhere, list_objects, read_objects, use_ledger, write_objects
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from stacks.workflow import Workflow

MakeFunction = Callable[..., Function]
"""The stack's: a function by its word, with the yard's settings in its environment."""


class Snapshots(Construct):
    """`rest`, `capture` and `undo` are states of the train workflow too: a job may ask for an image of its chief."""

    def __init__(
        self,
        scope: cdk.Stack,
        name: str,
        settings: YardSettings,
        storage: StorageStack,
        images: ImagesStack,
        make: MakeFunction,
    ) -> None:
        super().__init__(scope, name)
        self.settings, self.storage, self.images, self.make = settings, storage, images, make
        self.pause = Document(self, "pause", yard=settings.yard)
        self.resume = Document(self, "resume", yard=settings.yard)
        self.rest, self.capture, self.undo = self._rest(), self._capture(), self._undo()
        self.conclude = _conclude(make("snapshot.conclude"), storage)
        anywhere(self.conclude.its_role, "ec2:DescribeImages")
        self.workflow = Workflow(
            self,
            "snapshot",
            yard=settings.yard,
            functions=[self._admit(), self.rest, self.capture, self._fate(), self.undo, self.conclude],
            timeout=cdk.Duration.days(2),
            look_seconds=settings.look_seconds,
        )
        cdk.CfnOutput(scope, "SnapshotStateMachineArn", value=self.workflow.state_machine_arn)

    def _admit(self) -> Function:
        function = self.make("snapshot.admit")
        role = function.its_role
        read_objects(role, self.storage.bucket, "runs/")
        list_objects(role, self.storage.bucket, "runs/")
        anywhere(role, "ec2:DescribeInstances", "ec2:DescribeImages", "ssm:DescribeInstanceInformation")
        use_ledger(role, self.storage.table, "GetItem", "Query", "PutItem", "UpdateItem")
        return function

    def _rest(self) -> Function:
        generalize = self.images.generalize
        function = self.make(
            "snapshot.quiesce",
            GENERALIZE_DOCUMENT=generalize.document_name,
            PAUSE_DOCUMENT=self.pause.document_name,
        )
        role = function.its_role
        read_objects(role, self.storage.bucket, "runs/")
        list_objects(role, self.storage.bucket, "runs/")
        for document in (generalize, self.pause):
            permissions.command_hosts(role, document.document_arn, self.settings.yard)
        permissions.answer_tasks(role, "Success")
        anywhere(
            role,
            "ec2:DescribeInstances",
            "ec2:DescribeImages",
            "ssm:DescribeInstanceInformation",
            "ssm:ListCommandInvocations",
        )
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        return function

    def _capture(self) -> Function:
        function = self.make("snapshot.capture", RESUME_DOCUMENT=self.resume.document_name)
        role = function.its_role
        permissions.image_hosts(role, self.settings.yard)
        permissions.retire_images(role, self.settings.yard)
        permissions.command_hosts(role, self.resume.document_arn, self.settings.yard)
        permissions.answer_tasks(role, "Success")
        anywhere(role, "ec2:DescribeImages", "ec2:DescribeInstances")
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        return function

    def _fate(self) -> Function:
        function = self.make("snapshot.fate")
        role = function.its_role
        permissions.end_hosts(role, self.settings.yard)
        permissions.start_hosts(role, self.settings.yard)
        anywhere(role, "ec2:DescribeImages", "ec2:DescribeInstances")
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        return function

    def _undo(self) -> Function:
        function = self.make("snapshot.undo", lost=True, RESUME_DOCUMENT=self.resume.document_name)
        role = function.its_role
        permissions.retire_images(role, self.settings.yard)
        permissions.command_hosts(role, self.resume.document_arn, self.settings.yard)
        permissions.start_hosts(role, self.settings.yard)
        anywhere(role, "ec2:DescribeImages", "ec2:DescribeInstances")
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        return function


class Launches(Construct):
    """The workflow launch: a host from any image of the yard, by the train workflow's own Plan and Launch. `steps` are
    they, Release, and Recover of a launch."""

    def __init__(
        self,
        scope: cdk.Stack,
        name: str,
        settings: YardSettings,
        network: NetworkStack,
        storage: StorageStack,
        *,
        steps: Sequence[Function],
        make: MakeFunction,
    ) -> None:
        super().__init__(scope, name)
        self.storage, self.make = storage, make
        self.conclude = _conclude(make("launch.conclude"), storage)
        permissions.mark_hosts(self.conclude.its_role, settings.yard, hold.TAG)
        self.workflow = Workflow(
            self,
            "launch",
            yard=settings.yard,
            functions=[self._admit(network, settings.monthly_dollars), *steps, self._await(), self.conclude],
            timeout=cdk.Duration.days(31),
        )
        cdk.CfnOutput(scope, "LaunchStateMachineArn", value=self.workflow.state_machine_arn)

    def _admit(self, network: NetworkStack, monthly_dollars: float) -> Function:
        subnets = cdk.Fn.join(",", [subnet.subnet_id for subnet in network.subnets])
        function = self.make("launch.admit", SUBNET_IDS=subnets, MONTHLY_DOLLARS=f"{monthly_dollars:g}")
        role = function.its_role
        read_objects(role, self.storage.bucket, "runs/*/recipe.json")
        list_objects(role, self.storage.bucket, "runs/")
        anywhere(role, "ec2:DescribeImages", "ec2:DescribeSubnets")
        use_ledger(role, self.storage.table, "GetItem", "PutItem", "UpdateItem")
        return function

    def _await(self) -> Function:
        function = self.make("launch.await_host")
        role = function.its_role
        anywhere(role, "ec2:DescribeInstances", "ssm:DescribeInstanceInformation")
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        return function


def _conclude(function: Function, storage: StorageStack) -> Function:
    role = function.its_role
    write_objects(role, storage.bucket, "runs/")
    use_ledger(role, storage.table, "Query", "PutItem", "UpdateItem")
    return function
