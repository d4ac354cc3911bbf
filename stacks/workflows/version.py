"""The workflow version: changes of models, and new versions of them."""

import aws_cdk as cdk

from lambdas.workflows.version import admit, copy, golden, publish
from stacks.constructs.events import DeadLetterQueue
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.workflow import Workflow


class Version(Workflow):
    """The workflow. Each request about a model is an execution."""

    word = "version"

    def __init__(self, scope: cdk.Stack, factory: FunctionFactory) -> None:
        super().__init__(scope, factory)
        for module in (admit, copy, golden):
            self.function(module)
        self.conclude = self.function(publish)
        self.machine = self.state_machine(timeout=cdk.Duration.hours(2))

    def rules(self, queue: DeadLetterQueue) -> None:
        description = "A new version of a model ended before its Publish: refuse it"
        self._conclude_when_cut_short(queue, description, "The version is refused; create another one.")
