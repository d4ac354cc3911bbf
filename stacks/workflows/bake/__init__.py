"""The workflow bake: it makes the image that hosts start from."""

import aws_cdk as cdk
from aws_cdk import aws_events as events

from lambdas.workflows.bake import admit, capture, conclude, document, publish, recover
from lambdas.workflows.bake.document import Step
from lambdas.workflows.train import launch, plan
from stacks.constructs import packages
from stacks.constructs.events import DeadLetterQueue, schedule
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.permissions.grants import Launching
from stacks.constructs.workflow import Workflow
from stacks.documents import Document, text_of
from stacks.network import NetworkStack
from stacks.workflows.bake.builder import Builder
from stacks.workflows.bake.retire import Retire
from stacks.workflows.release import Release

CUT_SHORT = "Its builder was terminated; its unpublished image is retired. Bake again."


class Bake(Workflow):
    word = "bake"

    def __init__(
        self,
        scope: cdk.Stack,
        factory: FunctionFactory,
        network: NetworkStack,
        *,
        builder: Builder,
        retire: Retire,
        release: Release,
    ) -> None:
        super().__init__(scope, factory)
        self.install, self.test, self.generalize = (Document(self, word, yard=self.yard) for word in Step)
        self.software = packages.software_hash(*(text_of(word) for word in Step))
        """Changes with the software that a bake installs, and with how."""
        self.function(admit, software_hash=self.software)
        self.function(plan, needs=plan.FOR_BUILDERS, subnet_ids=network.subnet_ids)
        launching = Launching(builder.templates, network.launch_arns)
        self.function(launch, needs=launch.FOR_BUILDERS, launching=launching)
        self.function(document, software_uri=builder.software.s3_object_url)
        for module in (capture, publish, recover):
            self.function(module)
        self.conclude = self.function(conclude)
        shared = [retire.retire, release.function]
        self.machine = self.state_machine(timeout=cdk.Duration.days(3), others=shared, waits=True)

    def rules(self, queue: DeadLetterQueue) -> None:
        """Start scheduled bakes. A bake that would change nothing ends at once."""
        description = "A bake ended before or in its Conclude: remove its image, and allow the next bake"
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
