"""launch: a host from any image of the yard."""

import aws_cdk as cdk

from stacks.constructs import permissions
from stacks.constructs.events import DeadLetterQueue
from stacks.constructs.function import Function, FunctionFactory
from stacks.constructs.permissions.hosts import keep_disks, mark_hosts
from stacks.constructs.workflow import Workflow
from stacks.network import NetworkStack
from stacks.workflows.release import Release
from stacks.workflows.train import Train
from trainyard.protocol import keys
from trainyard.protocol.tags import Tag

CUT_SHORT = "Its host is ended."


class Launch(Workflow):
    """By the train workflow's own Plan and Launch."""

    word = "launch"

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
        self._admit(network)
        self._await_host()
        factory.make_pure(self, "launch.recover")
        self.conclude = self._conclude()
        shared = [train.plan, train.launch, release.function]
        self.machine = self.state_machine(timeout=cdk.Duration.days(31), others=shared)

    def rules(self, queue: DeadLetterQueue) -> None:
        description = "A launch ended before its Conclude: the summary says so"
        self._conclude_when_cut_short(queue, description, CUT_SHORT)

    def _admit(self, network: NetworkStack) -> None:
        settings = self.settings
        function = self.function(
            "admit",
            SUBNET_IDS=network.subnet_ids,
            MONTHLY_DOLLARS=f"{settings.monthly_dollars:g}",
            MOST_DOLLARS_PER_RUN=f"{settings.most_dollars_per_run:g}",
            MOST_HOSTS=str(settings.most_hosts),
            MOST_HOLD_HOURS=f"{settings.most_hold_hours:g}",
        )
        role = function.its_role
        permissions.read_objects(role, self.bucket, keys.recipe(keys.ANY))
        permissions.list_objects(role, self.bucket, keys.RUNS)
        permissions.anywhere(role, "ec2:DescribeImages", "ec2:DescribeSubnets")
        permissions.use_ledger(role, self.table, "GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem")

    def _await_host(self) -> None:
        role = self.function("await_host").its_role
        permissions.anywhere(role, "ec2:DescribeInstances", "ssm:DescribeInstanceInformation")
        permissions.use_ledger(role, self.table, "Query", "PutItem", "UpdateItem")

    def _conclude(self) -> Function:
        function = self.function("conclude")
        role = function.its_role
        permissions.write_objects(role, self.bucket, keys.RUNS)
        permissions.read_objects(role, self.bucket, keys.summary(keys.ANY))
        permissions.list_objects(role, self.bucket, keys.summary(keys.ANY))
        mark_hosts(role, self.yard, Tag.HOLD, Tag.CAP, Tag.READY)
        keep_disks(role, self.yard)
        permissions.use_ledger(role, self.table, "Query", "PutItem", "UpdateItem", "DeleteItem")
        return function
