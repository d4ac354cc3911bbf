"""train: from a job file to a trained model."""

import aws_cdk as cdk

from lambdas.core.run import pool
from stacks.constructs import permissions
from stacks.constructs.events import DeadLetterQueue
from stacks.constructs.function import Function, FunctionFactory
from stacks.constructs.hosts import HostTemplates
from stacks.constructs.permissions import kms
from stacks.constructs.permissions.data_buckets import read_data_buckets
from stacks.constructs.permissions.hosts import command_hosts, mark_hosts
from stacks.constructs.workflow import Workflow
from stacks.documents import Document
from stacks.network import NetworkStack
from stacks.workflows import capacity
from stacks.workflows.release import Release
from stacks.workflows.snapshot import Snapshot
from trainyard.protocol import keys

LONGEST_RUN = cdk.Duration.days(60)
"""Above anything a job's limits allow: a run ends by its own rules, and this is for one that nothing ends."""
CUT_SHORT = "Its hosts are ended."


class Train(Workflow):
    """`plan` and `launch` are states of the launch workflow too."""

    word = "train"

    def __init__(
        self,
        scope: cdk.Stack,
        factory: FunctionFactory,
        network: NetworkStack,
        *,
        host: HostTemplates,
        topic_arn: str,
        release: Release,
        snapshot: Snapshot,
    ) -> None:
        super().__init__(scope, factory)
        self._admit()
        self.plan, self.launch = capacity.plan(self, network), self._launch(network, host)
        self._await_hosts()
        self._train()
        factory.make_pure(self, "train.recover")
        self.conclude = self._conclude(topic_arn)
        shared = [snapshot.quiesce, snapshot.capture, snapshot.undo, release.function]
        permissions.read_parameters(self.plan.its_role, self.settings.image_parameter, "ssm:GetParameter")
        self.machine = self.state_machine(timeout=LONGEST_RUN, others=shared, waits=True)

    def rules(self, queue: DeadLetterQueue) -> None:
        description = "An execution ended before its Conclude: the summary says so"
        self._conclude_when_cut_short(queue, description, CUT_SHORT)

    def _admit(self) -> None:
        settings = self.settings
        function = self.function(
            "admit",
            memory=1024,  # it looks into programs
            MONTHLY_DOLLARS=f"{settings.monthly_dollars:g}",
            MOST_DOLLARS_PER_RUN=f"{settings.most_dollars_per_run:g}",
            MOST_RUNS=str(settings.most_runs),
            MOST_HOSTS=str(settings.most_hosts),
            MOST_POOL_HOSTS=str(settings.most_pool_hosts),
            WHEN_FULL=settings.when_full,
            DATA_BUCKETS=",".join(map(str, settings.data_buckets)),
        )
        cdk.CfnOutput(cdk.Stack.of(self), "Limits", value=settings.limits)
        role = function.its_role
        permissions.read_versions(role, self.bucket, keys.JOBS)
        of_runs = (keys.latest_checkpoint(keys.ANY), keys.job(keys.ANY))
        permissions.read_objects(role, self.bucket, keys.JOBS, keys.PROGRAMS, *of_runs)
        permissions.list_objects(
            role, self.bucket, keys.JOBS, keys.PROGRAMS, keys.DATA, keys.outputs(keys.ANY), *of_runs
        )
        read_data_buckets(role, *settings.data_buckets)
        permissions.write_objects(role, self.bucket, keys.RUNS)
        permissions.anywhere(role, "ssm:DescribeParameters")
        permissions.use_ledger(role, self.table, "GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem")

    def _launch(self, network: NetworkStack, host: HostTemplates) -> Function:
        """Hosts start from images of the yard alone; those of the pool are this run's by their tags."""
        function = capacity.launch(self, network, host, images=permissions.tagged(self.yard))
        role = function.its_role
        permissions.read_parameters(role, self.settings.image_parameter, "ssm:GetParameters")
        permissions.use_ledger(role, self.table, "DeleteItem")
        mark_hosts(role, self.yard, *pool.RETAGGED)
        return function

    def _await_hosts(self) -> None:
        role = self.function("await_hosts").its_role
        permissions.anywhere(role, "ec2:DescribeInstances")
        permissions.read_objects(role, self.bucket, keys.words(keys.ANY, keys.ANY))
        permissions.list_objects(role, self.bucket, keys.words(keys.ANY, keys.ANY))
        permissions.answer_tasks(role, "Success", "Failure")
        permissions.use_ledger(role, self.table, "Query", "PutItem", "UpdateItem")

    def _train(self) -> None:
        start = Document(self, "start", yard=self.yard)
        role = self.function("train", START_DOCUMENT=start.document_name).its_role
        permissions.read_objects(role, self.bucket, keys.RUNS)
        permissions.list_objects(role, self.bucket, keys.RUNS)
        permissions.write_objects(role, self.bucket, keys.RUNS)
        command_hosts(role, start.document_arn, self.yard)
        permissions.anywhere(role, "ssm:DescribeInstanceInformation")
        permissions.answer_tasks(role, "Success", "Failure")
        permissions.use_ledger(role, self.table, "Query", "PutItem", "UpdateItem")

    def _conclude(self, topic_arn: str) -> Function:
        function = self.function("conclude", TOPIC_ARN=topic_arn)
        role = function.its_role
        permissions.read_objects(role, self.bucket, keys.RUNS)
        permissions.list_objects(role, self.bucket, keys.RUNS)
        permissions.write_objects(role, self.bucket, keys.RUNS)
        permissions.allow(role, ["sns:Publish"], [topic_arn])
        kms.use_for_notices(role, self.settings.kms_key)
        permissions.use_ledger(role, self.table, "Query", "PutItem", "UpdateItem", "DeleteItem")
        return function
