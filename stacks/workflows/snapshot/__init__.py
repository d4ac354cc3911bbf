"""snapshot: an image of a host, which goes on, is stopped or ends."""

from collections.abc import Sequence

import aws_cdk as cdk

from stacks.constructs import permissions
from stacks.constructs.events import DeadLetterQueue, after_execution
from stacks.constructs.function import Function, FunctionFactory
from stacks.constructs.permissions.hosts import (
    command_hosts,
    end_hosts,
    image_hosts,
    retire_images,
    start_hosts,
)
from stacks.constructs.workflow import Workflow, callers
from stacks.documents import Document
from trainyard.protocol import keys

CUT_SHORT = (
    "An image that was not available is gone, a paused program goes on, "
    "a host that was stopped to be imaged runs again."
)


class Snapshot(Workflow):
    """`quiesce`, `capture` and `undo` are states of the train workflow too: a job may ask for an image of its chief."""

    word = "snapshot"

    def __init__(self, scope: cdk.Stack, factory: FunctionFactory, *, generalize: Document) -> None:
        super().__init__(scope, factory)
        self._admit()
        self.quiesce = self._quiesce(generalize, Document(self, "pause", yard=self.yard))
        resume = Document(self, "resume", yard=self.yard)
        self.capture = self._capture(resume)
        self._fate()
        self.undo, self.conclude = self._undo(resume), self._conclude()
        self.machine = self.state_machine(timeout=cdk.Duration.days(2), waits=True)

    def rules(self, queue: DeadLetterQueue) -> None:
        description = "A snapshot ended before its Conclude: the summary says so"
        self._conclude_when_cut_short(queue, description, CUT_SHORT)

    def undo_rules(self, queue: DeadLetterQueue, workflows: Sequence[Workflow]) -> None:
        """Undo is for runs that image their host, too."""
        after_execution(
            self,
            "ImageBroken",
            of=callers(self.undo, workflows),
            function=self.undo,
            dead_letter_queue=queue,
            description="An execution has not ended well: the host that it imaged is as it was",
        )

    def _admit(self) -> None:
        role = self.function("admit").its_role
        permissions.read_objects(role, self.bucket, keys.RUNS)
        permissions.list_objects(role, self.bucket, keys.RUNS)
        permissions.anywhere(
            role, "ec2:DescribeInstances", "ec2:DescribeImages", "ssm:DescribeInstanceInformation"
        )
        permissions.use_ledger(role, self.table, "GetItem", "Query", "PutItem", "UpdateItem")

    def _quiesce(self, generalize: Document, pause: Document) -> Function:
        function = self.function(
            "quiesce", GENERALIZE_DOCUMENT=generalize.document_name, PAUSE_DOCUMENT=pause.document_name
        )
        role = function.its_role
        permissions.read_objects(role, self.bucket, keys.RUNS)
        permissions.list_objects(role, self.bucket, keys.RUNS)
        for document in (generalize, pause):
            command_hosts(role, document.document_arn, self.yard)
        permissions.answer_tasks(role, "Success")
        permissions.anywhere(
            role,
            "ec2:DescribeInstances",
            "ec2:DescribeImages",
            "ssm:DescribeInstanceInformation",
            "ssm:ListCommandInvocations",
        )
        permissions.use_ledger(role, self.table, "Query", "PutItem", "UpdateItem")
        return function

    def _capture(self, resume: Document) -> Function:
        function = self.function("capture", RESUME_DOCUMENT=resume.document_name)
        role = function.its_role
        image_hosts(role, self.yard, key=self.settings.kms_key)
        retire_images(role, self.yard)
        command_hosts(role, resume.document_arn, self.yard)
        permissions.answer_tasks(role, "Success")
        permissions.anywhere(role, "ec2:DescribeImages", "ec2:DescribeInstances")
        permissions.use_ledger(role, self.table, "Query", "PutItem", "UpdateItem")
        return function

    def _fate(self) -> None:
        role = self.function("fate").its_role
        end_hosts(role, self.yard)
        start_hosts(role, self.yard, key=self.settings.kms_key)
        permissions.anywhere(role, "ec2:DescribeImages", "ec2:DescribeInstances")
        permissions.use_ledger(role, self.table, "Query", "PutItem", "UpdateItem")

    def _undo(self, resume: Document) -> Function:
        function = self.function("undo", RESUME_DOCUMENT=resume.document_name)
        role = function.its_role
        retire_images(role, self.yard)
        command_hosts(role, resume.document_arn, self.yard)
        start_hosts(role, self.yard, key=self.settings.kms_key)
        permissions.anywhere(role, "ec2:DescribeImages", "ec2:DescribeInstances")
        permissions.use_ledger(role, self.table, "Query", "PutItem", "UpdateItem")
        return function

    def _conclude(self) -> Function:
        function = self.function("conclude")
        role = function.its_role
        permissions.write_objects(role, self.bucket, keys.RUNS)
        permissions.read_objects(role, self.bucket, keys.summary(keys.ANY))
        permissions.list_objects(role, self.bucket, keys.summary(keys.ANY))
        permissions.anywhere(role, "ec2:DescribeImages")
        permissions.use_ledger(role, self.table, "Query", "PutItem", "UpdateItem", "DeleteItem")
        return function
