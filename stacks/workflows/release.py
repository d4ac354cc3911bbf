"""Release: how every workflow ends its hosts, on every path."""

from collections.abc import Sequence

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs import permissions
from stacks.constructs.events import DeadLetterQueue, after_execution
from stacks.constructs.function import FunctionFactory
from stacks.constructs.permissions.hosts import end_hosts, mark_hosts
from stacks.constructs.workflow import Workflow, callers
from trainyard.protocol.tags import Tag


class Release(Construct):
    """One function for all workflows: a bake releases its builder by it, so it is made with the bake."""

    def __init__(self, scope: cdk.Stack, factory: FunctionFactory) -> None:
        super().__init__(scope, "Release")
        most = str(factory.settings.most_pool_hosts)
        self.function = factory.make(self, "release", minutes=2, MOST_POOL_HOSTS=most)
        role = self.function.its_role
        permissions.use_ledger(role, factory.table, "GetItem", "Query", "PutItem", "UpdateItem")
        end_hosts(role, factory.settings.yard)
        mark_hosts(role, factory.settings.yard, Tag.POOL)
        permissions.anywhere(role, "ec2:DescribeInstances")

    def rules(self, queue: DeadLetterQueue, workflows: Sequence[Workflow]) -> None:
        after_execution(
            self,
            "RunBroken",
            of=callers(self.function, workflows),
            function=self.function,
            dead_letter_queue=queue,
            description="An execution has not ended well: no host of it may go on",
            input={"scope": "run"},
        )
