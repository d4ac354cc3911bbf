"""The workflow version: changes of models, and new versions of them."""

import aws_cdk as cdk
from aws_cdk import aws_events as events

from lambdas.workflows.version import admit, convert, copy, golden, publish
from stacks.constructs.events import BADLY, DeadLetterQueue, rule
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.workflow import Workflow
from stacks.workflows.train import Train
from trainyard.protocol.conversions import PREFIX


class Version(Workflow):
    """The workflow. Each request about a model is an execution."""

    word = "version"

    def __init__(self, scope: cdk.Stack, factory: FunctionFactory, *, train: Train) -> None:
        super().__init__(scope, factory)
        self._train = train
        for module in (admit, copy, golden):
            self.function(module)
        self.convert = self.function(convert)
        self.conclude = self.function(publish)
        self.machine = self.state_machine(timeout=cdk.Duration.hours(3), waits=True)

    def rules(self, queue: DeadLetterQueue) -> None:
        description = "A new version of a model ended before its Publish: refuse it"
        self._conclude_when_cut_short(queue, description, "The version is refused; create another one.")
        rule(
            self,
            "ModelPrepared",
            function=self.convert,
            dead_letter_queue=queue,
            description="A run that prepares a SavedModel has ended: continue with its version",
            pattern=events.EventPattern(
                source=["aws.states"],
                detail_type=["Step Functions Execution Status Change"],
                detail={
                    "stateMachineArn": [self._train.machine.arn_in(self)],
                    "name": events.Match.prefix(PREFIX),
                    "status": ["SUCCEEDED", *BADLY],
                },
            ),
            input={"run": events.EventField.from_path("$.detail.name")},
        )
