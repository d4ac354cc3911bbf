"""How the yard makes the image that its hosts start from."""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks import packages, permissions
from stacks.documents import Document, text_of
from stacks.function import Dependencies, Function
from stacks.hosts import HostRole, HostTemplate
from stacks.network import NetworkStack
from stacks.permissions import anywhere, list_objects, read_objects, read_versions, use_ledger, write_objects
from stacks.retention import Retention
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from stacks.workflow import Workflow

NOT_BAKED = "none"
"""The image parameters' value until the first bake, and of the previous one until the second."""
BUILDING = ("install", "test", "generalize")
"""The documents that a builder is given, in this order."""
END_WITH_THE_LEASE = Path(__file__).with_name("builder.sh")
BAKES = "Executions exist only later; the name binds them to this yard's bake."


class ImagesStack(cdk.Stack):
    """The bake workflow, and what the train workflow shares with it: the generalize document and Release."""

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
        self.parameter = self._parameter(
            "Image",
            settings.image_parameter,
            "The image that hosts start from; the bake workflow points it at what it made",
        )
        self.previous = self._parameter(
            "PreviousImage",
            settings.previous_image_parameter,
            "The image that hosts started from before; a bake that rolls back makes it the current one",
        )
        self.software = assets.Asset(
            self, "Software", path=str(packages.software_folder()), exclude=packages.LEFT_BEHIND
        )
        self.install, self.test, self.generalize = (
            Document(self, word, yard=settings.yard) for word in BUILDING
        )
        self.builder_role = self._builder_role()
        self.builder = HostTemplate(
            self,
            "Builder",
            yard=settings.yard,
            role=self.builder_role,
            security_group=network.hosts,
            initialization_rate=settings.volume_initialization_rate,
            tags={"trainyard:bucket": storage.bucket.bucket_name},
            user_data=END_WITH_THE_LEASE.read_text(),
        )
        self.layer = Dependencies(self, "Dependencies")
        self.release, self.conclude = self._release(), self._conclude()
        self.retention = Retention(self, "Retention", settings, storage, self.layer)
        self.workflow = Workflow(
            self,
            "bake",
            yard=settings.yard,
            functions=[
                self._admit(),
                self._plan(),
                self._launch(),
                self._document(),
                self._capture(),
                self._publish(),
                self._recover(),
                self.retention.function,
                self.release,
                self.conclude,
            ],
            timeout=cdk.Duration.days(3),
            look_seconds=settings.look_seconds,
        )
        cdk.CfnOutput(self, "BakeStateMachineArn", value=self.workflow.state_machine_arn)
        cdk.CfnOutput(self, "BakeRecipe", value=settings.recipe_key)

    @property
    def functions(self) -> list[Function]:
        return [node for node in self.node.find_all() if isinstance(node, Function)]

    def _parameter(self, name: str, parameter: str, description: str) -> ssm.StringParameter:
        return ssm.StringParameter(
            self, name, parameter_name=parameter, string_value=NOT_BAKED, description=description
        )

    def _builder_role(self) -> HostRole:
        role = HostRole(self, "BuilderRole", description="What the builder of an image may do")
        archive = self.software.bucket.arn_for_objects(self.software.s3_object_key)
        permissions.allow(role, ["s3:GetObject"], [archive])
        read_objects(role, self.storage.bucket, "runs/*/recipe.json", "runs/*/logs/")
        write_objects(role, self.storage.bucket, "runs/*/logs/", "runs/*/tests.json")
        list_objects(role, self.storage.bucket, "runs/")
        permissions.publish_metrics(role)
        anywhere(role, "cloudwatch:GetMetricData")
        return role

    # --------------------------------------------------------------------------------------------- functions

    def _function(
        self, word: str, *, minutes: float = 1, module: str | None = None, **environment: str
    ) -> Function:
        return Function(
            self,
            word,
            yard=self.settings.yard,
            dependencies=self.layer,
            minutes=minutes,
            module=module,
            environment={
                "YARD": self.settings.yard,
                "TABLE_NAME": self.storage.table.table_name,
                "BUCKET_NAME": self.storage.bucket.bucket_name,
                **environment,
            },
        )

    def _admit(self) -> Function:
        function = self._function(
            "bake.admit",
            IMAGE_PARAMETER=self.settings.image_parameter,
            PREVIOUS_IMAGE_PARAMETER=self.settings.previous_image_parameter,
            BASE_IMAGE_PARAMETER=self.settings.base_image_parameter,
            RECIPE_KEY=self.settings.recipe_key,
            MONTHLY_DOLLARS=f"{self.settings.monthly_dollars:g}",
            SOFTWARE_HASH=packages.software_hash(*(text_of(word) for word in BUILDING)),
        )
        role, bucket = function.its_role, self.storage.bucket
        read_versions(role, bucket, "images/")
        read_objects(role, bucket, "images/")
        list_objects(role, bucket, "images/")
        write_objects(role, bucket, "runs/")
        use_ledger(role, self.storage.table, "GetItem", "PutItem", "UpdateItem")
        for name in self._readable():
            permissions.read_parameters(role, name, "ssm:GetParameter")
        permissions.allow(role, ["states:DescribeExecution"], [self._bakes], because=BAKES)
        anywhere(role, "ec2:DescribeImages")
        return function

    def _readable(self) -> list[str]:
        """The parameters that may name base images: AWS's public ones, the yard's, the one that the context names."""
        public, own, named = "/aws/service/", f"/{self.settings.yard}/", self.settings.base_image_parameter
        return [f"{public}*", f"{own}*", *([] if named.startswith((public, own)) else [named])]

    @property
    def _bakes(self) -> str:
        """The executions of the bake, by name: its functions are made before it."""
        return self.format_arn(
            service="states",
            resource="execution",
            resource_name=f"{self.settings.yard}-bake:*",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )

    def _plan(self) -> Function:
        function = self._function(
            "bake.plan",
            module="train.plan",
            IMAGE_PARAMETER=self.settings.image_parameter,
            SUBNET_IDS=cdk.Fn.join(",", [subnet.subnet_id for subnet in self.network.subnets]),
        )
        role = function.its_role
        permissions.plan_launches(role)
        write_objects(role, self.storage.bucket, "runs/")
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        return function

    def _launch(self) -> Function:
        """Builders start from whatever image the recipe names."""
        function = self._function(
            "bake.launch",
            module="train.launch",
            minutes=3,
            LAUNCH_TEMPLATE_ID=self.builder.ref,
            LAUNCH_TEMPLATE_VERSION=self.builder.attr_latest_version_number,
        )
        role = function.its_role
        permissions.launch_hosts(
            role,
            calls=["ec2:CreateFleet", "ec2:RunInstances"],
            template_id=self.builder.ref,
            network=network_arns(self, self.network),
            pass_role=self.builder_role,
            yard=self.settings.yard,
        )
        anywhere(role, "ec2:DescribeInstances")
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        return function

    def _document(self) -> Function:
        function = self._function(
            "bake.document",
            INSTALL_DOCUMENT=self.install.document_name,
            TEST_DOCUMENT=self.test.document_name,
            GENERALIZE_DOCUMENT=self.generalize.document_name,
            SOFTWARE_URI=self.software.s3_object_url,
        )
        role = function.its_role
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        read_objects(role, self.storage.bucket, "runs/*/tests.json")
        list_objects(role, self.storage.bucket, "runs/")
        for document in (self.install, self.test, self.generalize):
            permissions.command_hosts(role, document.document_arn, self.settings.yard)
        permissions.answer_tasks(role, "Success")
        anywhere(
            role,
            "ssm:DescribeInstanceInformation",
            "ssm:ListCommandInvocations",
            "ssm:GetCommandInvocation",
            "ec2:DescribeInstances",
        )
        return function

    def _capture(self) -> Function:
        function = self._function("bake.capture")
        role = function.its_role
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        read_objects(role, self.storage.bucket, "runs/*/tests.json")
        list_objects(role, self.storage.bucket, "runs/")
        permissions.image_hosts(role, self.settings.yard)
        permissions.retire_images(role, self.settings.yard)
        permissions.answer_tasks(role, "Success")
        anywhere(role, "ec2:DescribeImages", "ec2:DescribeInstances")
        return function

    def _publish(self) -> Function:
        function = self._function(
            "bake.publish",
            IMAGE_PARAMETER=self.settings.image_parameter,
            PREVIOUS_IMAGE_PARAMETER=self.settings.previous_image_parameter,
        )
        role = function.its_role
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem")
        pointers = [self.parameter.parameter_arn, self.previous.parameter_arn]
        permissions.allow(role, ["ssm:GetParameter", "ssm:PutParameter"], pointers)
        anywhere(role, "ec2:DescribeImages")
        return function

    def _recover(self) -> Function:
        """Decides and does nothing: its role has no permission but to write its log."""
        return Function(
            self, "bake.recover", yard=self.settings.yard, dependencies=self.layer, environment={}
        )

    def _conclude(self) -> Function:
        function = self._function(
            "bake.conclude",
            minutes=2,
            IMAGE_PARAMETER=self.settings.image_parameter,
            PREVIOUS_IMAGE_PARAMETER=self.settings.previous_image_parameter,
        )
        role, bucket = function.its_role, self.storage.bucket
        use_ledger(role, self.storage.table, "Query", "PutItem", "UpdateItem", "DeleteItem")
        read_objects(role, bucket, "runs/")
        list_objects(role, bucket, "runs/")
        write_objects(role, bucket, "runs/")
        pointers = [self.parameter.parameter_arn, self.previous.parameter_arn]
        permissions.allow(role, ["ssm:GetParameter"], pointers)
        permissions.retire_images(role, self.settings.yard)
        anywhere(role, "ec2:DescribeImages")
        return function

    def _release(self) -> Function:
        """Ends hosts of every workflow; nothing else in the yard may."""
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
