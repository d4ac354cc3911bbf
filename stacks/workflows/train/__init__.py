"""The workflow train: from a job file to a trained model."""

import aws_cdk as cdk

from lambdas.workflows.train import admit, await_hosts, await_runs, conclude, launch, plan, recover, train
from stacks.constructs.events import DeadLetterQueue
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.hosts import HostTemplates
from stacks.constructs.permissions.grants import Launching
from stacks.constructs.workflow import Workflow
from stacks.documents import Document
from stacks.network import NetworkStack
from stacks.workflows.release import Release
from stacks.workflows.snapshot import Snapshot

LONGEST_RUN = cdk.Duration.days(60)
"""Longer than any job's limits. A run ends by its own rules; this is for a run that nothing ends."""
CUT_SHORT = "Its hosts are ended."


class Train(Workflow):
    """The workflow. Its `plan` and `launch` are states of the dev-host workflow, too."""

    word = "train"

    def __init__(
        self,
        scope: cdk.Stack,
        factory: FunctionFactory,
        network: NetworkStack,
        *,
        host: HostTemplates,
        release: Release,
        snapshot: Snapshot,
    ) -> None:
        super().__init__(scope, factory)
        Document(self, "start", yard=self.yard)
        self.plan = self.function(plan, subnet_ids=network.subnet_ids)
        self.launch = self.function(launch, launching=Launching(host, network.launch_arns))
        self.function(admit, subnet_ids=network.subnet_ids, hosts_group=network.hosts.security_group_id)
        for module in (await_runs, await_hosts, train, recover):
            self.function(module)
        self.conclude = self.function(conclude)
        cdk.CfnOutput(scope, "Limits", value=self.settings.limits)
        shared = [snapshot.quiesce, snapshot.capture, snapshot.undo, release.function]
        self.machine = self.state_machine(timeout=LONGEST_RUN, others=shared, waits=True)

    def rules(self, queue: DeadLetterQueue) -> None:
        description = "An execution ended before its Conclude: write its summary"
        self._conclude_when_cut_short(queue, description, CUT_SHORT)
