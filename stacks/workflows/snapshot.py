"""snapshot: an image of a host, which goes on, is stopped or ends."""

from collections.abc import Sequence

import aws_cdk as cdk

from lambdas.workflows.snapshot import admit, capture, conclude, fate, quiesce, undo
from stacks.constructs.events import DeadLetterQueue, after_execution
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.workflow import Workflow, callers
from stacks.documents import Document

CUT_SHORT = (
    "An image that was not available is gone, a paused program goes on, "
    "a host that was stopped to be imaged runs again."
)


class Snapshot(Workflow):
    """`quiesce`, `capture` and `undo` are states of the train workflow too: a job may ask for an image of its chief."""

    word = "snapshot"

    def __init__(self, scope: cdk.Stack, factory: FunctionFactory) -> None:
        super().__init__(scope, factory)
        for word in ("pause", "resume"):
            Document(self, word, yard=self.yard)
        self.function(admit)
        self.function(fate)
        self.quiesce, self.capture = self.function(quiesce), self.function(capture)
        self.undo, self.conclude = self.function(undo), self.function(conclude)
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
