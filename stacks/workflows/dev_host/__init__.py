"""The workflow dev-host: it launches one host from any image of the yard."""

import aws_cdk as cdk

from lambdas.workflows.dev_host import admit, await_host, conclude, recover
from stacks.constructs.events import DeadLetterQueue
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.workflow import Workflow
from stacks.network import NetworkStack
from stacks.workflows.release import Release
from stacks.workflows.train import Train

CUT_SHORT = "Its host is ended."


class DevHost(Workflow):
    """The workflow. Its Plan and Launch are functions of the train workflow."""

    word = "dev-host"

    def __init__(
        self,
        scope: cdk.Stack,
        factory: FunctionFactory,
        network: NetworkStack,
        *,
        train: Train,
        release: Release,
    ) -> None:
        super().__init__(scope, factory)
        self.function(admit, subnet_ids=network.subnet_ids)
        self.function(await_host)
        self.function(recover)
        self.conclude = self.function(conclude)
        shared = [train.plan, train.launch, release.function]
        self.machine = self.state_machine(timeout=cdk.Duration.days(31), others=shared)

    def rules(self, queue: DeadLetterQueue) -> None:
        description = "A dev-host execution ended before its Conclude: write its summary"
        self._conclude_when_cut_short(queue, description, CUT_SHORT)
