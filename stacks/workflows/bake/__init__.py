"""bake: the image that hosts start from."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_ssm as ssm

from stacks.constructs import packages, permissions
from stacks.constructs.events import DeadLetterQueue, schedule
from stacks.constructs.function import Function, FunctionFactory
from stacks.constructs.names import by_name
from stacks.constructs.permissions.hosts import command_hosts, image_hosts, retire_images
from stacks.constructs.workflow import Workflow
from stacks.documents import Document, text_of
from stacks.network import NetworkStack
from stacks.workflows import capacity
from stacks.workflows.bake.builder import Builder
from stacks.workflows.release import Release
from stacks.workflows.retire import Retire
from trainyard.protocol import keys

BUILDING = ("install", "test", "generalize")
"""The documents that a builder is given, in this order."""
BAKES = "Executions exist only later; the name binds them to this yard's bake."
CUT_SHORT = "Its builder is ended; what it had not published is retired. Bake again."


class Bake(Workflow):
    """It points `parameters`, the current image's and the previous one's, at what it made."""

    word = "bake"

    def __init__(
        self,
        scope: cdk.Stack,
        factory: FunctionFactory,
        network: NetworkStack,
        *,
        builder: Builder,
        parameters: tuple[ssm.StringParameter, ssm.StringParameter],
        retire: Retire,
        release: Release,
    ) -> None:
        super().__init__(scope, factory)
        self.pointer_arns = [each.parameter_arn for each in parameters]
        self.install, self.test, self.generalize = (Document(self, word, yard=self.yard) for word in BUILDING)
        self.software = packages.software_hash(*(text_of(word) for word in BUILDING))
        """Changes with what a bake installs, and with how."""
        self._admit(scope)
        capacity.plan(self, network)
        capacity.launch(self, network, builder.templates)  # from whatever image the recipe names
        self._document(builder.software.s3_object_url)
        self._capture()
        self._publish()
        factory.make_pure(self, "bake.recover")
        self.conclude = self._conclude()
        shared = [retire.retire, release.function]
        self.machine = self.state_machine(timeout=cdk.Duration.days(3), others=shared, waits=True)

    def rules(self, queue: DeadLetterQueue) -> None:
        """A bake that would change nothing ends at once."""
        description = "A bake ended before its Conclude, or in it: no image of it is left, the next may begin"
        self._conclude_when_cut_short(queue, description, CUT_SHORT)
        if self.settings.bake_schedule:
            schedule(
                self,
                "Schedule",
                machine=self.machine,
                dead_letter_queue=queue,
                schedule=events.Schedule.expression(self.settings.bake_schedule),
                description="Time to bake the yard's recipe",
            )

    def _admit(self, stack: cdk.Stack) -> None:
        function = self.function(
            "admit",
            IMAGE_PARAMETER=self.settings.image_parameter,
            PREVIOUS_IMAGE_PARAMETER=self.settings.previous_image_parameter,
            BASE_IMAGE_PARAMETER=self.settings.base_image_parameter,
            RECIPE_KEY=self.settings.recipe_key,
            MONTHLY_DOLLARS=f"{self.settings.monthly_dollars:g}",
            SOFTWARE_HASH=self.software,
        )
        role = function.its_role
        permissions.read_versions(role, self.bucket, keys.IMAGES)
        permissions.read_objects(role, self.bucket, keys.IMAGES)
        permissions.list_objects(role, self.bucket, keys.IMAGES)
        permissions.write_objects(role, self.bucket, keys.RUNS)
        permissions.use_ledger(role, self.table, "GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem")
        for name in self._readable():
            permissions.read_parameters(role, name, "ssm:GetParameter")
        bakes = by_name(stack, "states", "execution", f"{self.yard}-bake:*")
        permissions.allow(role, ["states:DescribeExecution"], [bakes], because=BAKES)
        permissions.anywhere(role, "ec2:DescribeImages")

    def _readable(self) -> list[str]:
        """The parameters that may name base images: AWS's public ones, the yard's, the one that the context names."""
        public, own, named = "/aws/service/", f"/{self.yard}/", self.settings.base_image_parameter
        return [f"{public}*", f"{own}*", *([] if named.startswith((public, own)) else [named])]

    def _document(self, software: str) -> None:
        role = self.function(
            "document",
            INSTALL_DOCUMENT=self.install.document_name,
            TEST_DOCUMENT=self.test.document_name,
            GENERALIZE_DOCUMENT=self.generalize.document_name,
            SOFTWARE_URI=software,
        ).its_role
        permissions.use_ledger(role, self.table, "Query", "PutItem", "UpdateItem")
        permissions.read_objects(role, self.bucket, keys.tests(keys.ANY))
        permissions.list_objects(role, self.bucket, keys.RUNS)
        for document in (self.install, self.test, self.generalize):
            command_hosts(role, document.document_arn, self.yard)
        permissions.answer_tasks(role, "Success")
        permissions.anywhere(
            role,
            "ssm:DescribeInstanceInformation",
            "ssm:ListCommandInvocations",
            "ssm:GetCommandInvocation",
            "ec2:DescribeInstances",
        )

    def _capture(self) -> None:
        role = self.function("capture").its_role
        permissions.use_ledger(role, self.table, "Query", "PutItem", "UpdateItem")
        permissions.read_objects(role, self.bucket, keys.tests(keys.ANY), keys.sbom(keys.ANY))
        permissions.list_objects(role, self.bucket, keys.RUNS)
        image_hosts(role, self.yard, key=self.settings.kms_key)
        retire_images(role, self.yard)
        permissions.answer_tasks(role, "Success")
        permissions.anywhere(role, "ec2:DescribeImages", "ec2:DescribeInstances")

    def _publish(self) -> None:
        role = self.function(
            "publish",
            IMAGE_PARAMETER=self.settings.image_parameter,
            PREVIOUS_IMAGE_PARAMETER=self.settings.previous_image_parameter,
        ).its_role
        permissions.use_ledger(role, self.table, "Query", "PutItem", "UpdateItem")
        permissions.allow(role, ["ssm:GetParameter", "ssm:PutParameter"], self.pointer_arns)
        permissions.anywhere(role, "ec2:DescribeImages")

    def _conclude(self) -> Function:
        function = self.function(
            "conclude",
            minutes=2,
            IMAGE_PARAMETER=self.settings.image_parameter,
            PREVIOUS_IMAGE_PARAMETER=self.settings.previous_image_parameter,
        )
        role = function.its_role
        permissions.use_ledger(role, self.table, "Query", "PutItem", "UpdateItem", "DeleteItem")
        permissions.read_objects(role, self.bucket, keys.RUNS)
        permissions.list_objects(role, self.bucket, keys.RUNS)
        permissions.write_objects(role, self.bucket, keys.RUNS)
        permissions.allow(role, ["ssm:GetParameter"], self.pointer_arns)
        retire_images(role, self.yard)
        permissions.anywhere(role, "ec2:DescribeImages")
        return function
