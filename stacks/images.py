"""How the yard makes the image that its hosts start from."""

import aws_cdk as cdk
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks import packages, permissions
from stacks.documents import Document, text_of
from stacks.function import Dependencies, Function
from stacks.hosts import HostRole, HostTemplate
from stacks.network import NetworkStack
from stacks.permissions import anywhere, use_ledger
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from stacks.workflow import Workflow

NOT_BAKED = "none"
"""The image parameter's value until the first bake."""


class ImagesStack(cdk.Stack):
    """The bake workflow, and what the train workflow shares with it: the seal document and Release."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: YardSettings,
        network: NetworkStack,
        storage: StorageStack,
    ) -> None:
        super().__init__(scope, name, description="Trainyard: the image of the hosts and how it is made")
        self.settings, self.network, self.storage = settings, network, storage
        self.parameter = ssm.StringParameter(
            self,
            "Image",
            parameter_name=settings.image_parameter,
            string_value=NOT_BAKED,
            description="The image that hosts start from; the bake workflow points it at what it made",
        )
        self.software = assets.Asset(
            self, "Software", path=str(packages.software_folder()), exclude=packages.LEFT_BEHIND
        )
        self.recipe = packages.recipe(
            text_of("install"), text_of("seal"), settings.base_image_parameter, settings.yard
        )
        self.install = Document(self, "install", yard=settings.yard)
        self.seal = Document(self, "seal", yard=settings.yard)
        self.builder_role = self._builder_role()
        self.builder = HostTemplate(
            self,
            "Builder",
            yard=settings.yard,
            image=f"resolve:ssm:{settings.base_image_parameter}",
            instance_type=settings.builder_instance_type,
            role=self.builder_role,
            security_group=network.hosts,
            root_gib=settings.root_gib,
            tags={"trainyard:bucket": storage.bucket.bucket_name},
        )
        self.layer = Dependencies(self, "Dependencies")
        self.release = self._release()
        self.workflow = Workflow(
            self,
            "bake",
            yard=settings.yard,
            functions=[self._launch(), self._install(), self._capture(), self._publish(), self.release],
            timeout=cdk.Duration.days(3),
        )
        cdk.CfnOutput(self, "BakeStateMachineArn", value=self.workflow.state_machine_arn)
        cdk.CfnOutput(self, "ImageRecipe", value=self.recipe)

    @property
    def functions(self) -> list[Function]:
        return [node for node in self.node.find_all() if isinstance(node, Function)]

    def _builder_role(self) -> HostRole:
        role = HostRole(self, "BuilderRole", description="What the builder of an image may do")
        archive = self.software.bucket.arn_for_objects(self.software.s3_object_key)
        permissions.allow(role, ["s3:GetObject"], [archive])
        return role

    def _function(self, word: str, minutes: float = 1, **environment: str) -> Function:
        return Function(
            self,
            word,
            yard=self.settings.yard,
            dependencies=self.layer,
            minutes=minutes,
            environment={
                "YARD": self.settings.yard,
                "TABLE_NAME": self.storage.table.table_name,
                "BUCKET_NAME": self.storage.bucket.bucket_name,
                **environment,
            },
        )

    def _launch(self) -> Function:
        function = self._function(
            "bake_launch",
            BASE_IMAGE_PARAMETER=self.settings.base_image_parameter,
            LAUNCH_TEMPLATE_ID=self.builder.ref,
            SUBNET_IDS=cdk.Fn.join(",", [subnet.subnet_id for subnet in self.network.subnets]),
            RECIPE=self.recipe,
        )
        role = function.its_role
        use_ledger(role, self.storage.table, "PutItem", "UpdateItem")
        permissions.read_parameters(role, self.settings.base_image_parameter, "ssm:GetParameter")
        permissions.launch_hosts(
            role,
            calls=["ec2:RunInstances"],
            template_id=self.builder.ref,
            network=network_arns(self, self.network),
            pass_role=self.builder_role,
            yard=self.settings.yard,
        )
        return function

    def _install(self) -> Function:
        function = self._function(
            "bake_install",
            INSTALL_DOCUMENT=self.install.document_name,
            SOFTWARE_URI=self.software.s3_object_url,
            RECIPE=self.recipe,
        )
        role = function.its_role
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        permissions.command_hosts(role, self.install.document_arn, self.settings.yard)
        permissions.answer_tasks(role, "Success")
        anywhere(
            role, "ssm:DescribeInstanceInformation", "ssm:ListCommandInvocations", "ssm:GetCommandInvocation"
        )
        return function

    def _capture(self) -> Function:
        function = self._function("bake_capture", RECIPE=self.recipe)
        role = function.its_role
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        permissions.image_hosts(role, self.settings.yard)
        anywhere(role, "ec2:DescribeImages")
        permissions.answer_tasks(role, "Success")
        return function

    def _publish(self) -> Function:
        function = self._function(
            "bake_publish",
            minutes=5,
            IMAGE_PARAMETER=self.settings.image_parameter,
            KEEP_IMAGES=str(self.settings.keep_images),
        )
        role = function.its_role
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        permissions.allow(role, ["ssm:PutParameter"], [self.parameter.parameter_arn])
        permissions.retire_images(role, self.settings.yard)
        anywhere(role, "ec2:DescribeImages", "ec2:DescribeInstances")
        return function

    def _release(self) -> Function:
        """Ends hosts of both workflows; nothing else in the yard may."""
        function = self._function("release", minutes=2)
        role = function.its_role
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        permissions.end_hosts(role, self.settings.yard)
        anywhere(role, "ec2:DescribeInstances")
        return function


def network_arns(stack: cdk.Stack, network: NetworkStack) -> list[str]:
    """The subnets and the security group that a host may be launched into."""
    subnets = [
        stack.format_arn(service="ec2", resource="subnet", resource_name=subnet.subnet_id)
        for subnet in network.subnets
    ]
    group = stack.format_arn(
        service="ec2", resource="security-group", resource_name=network.hosts.security_group_id
    )
    return [*subnets, group]
