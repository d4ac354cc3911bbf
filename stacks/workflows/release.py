"""Release: the end of a workflow's hosts, on every path."""

from collections.abc import Sequence

import aws_cdk as cdk
from constructs import Construct

from lambdas.workflows import release
from stacks.constructs.events import DeadLetterQueue, after_execution
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.workflow import Workflow, callers


class Release(Construct):
    """One function for all workflows. The bake's stack makes this function, because a bake is the first to need it."""

    def __init__(self, scope: cdk.Stack, factory: FunctionFactory) -> None:
        super().__init__(scope, "Release")
        self.function = factory.make(self, release)

    def rules(self, queue: DeadLetterQueue, workflows: Sequence[Workflow]) -> None:
        after_execution(
            self,
            "RunBroken",
            of=callers(self.function, workflows),
            function=self.function,
            dead_letter_queue=queue,
            description="An execution failed: terminate its hosts",
            input={"scope": "run"},
        )
