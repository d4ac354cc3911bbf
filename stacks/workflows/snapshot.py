"""The workflow snapshot: it makes an image of a host, which then continues, stops or ends."""

from collections.abc import Sequence

import aws_cdk as cdk

from lambdas.workflows.snapshot import admit, capture, conclude, fate, quiesce, undo
from stacks.constructs.events import DeadLetterQueue, after_execution
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.workflow import Workflow, callers
from stacks.documents import Document

CUT_SHORT = (
    "An unavailable image was deleted, a paused program continues, and a host that was stopped for its image runs "
    "again."
)


class Snapshot(Workflow):
    """The workflow. Its `quiesce`, `capture` and `undo` are states of the train workflow, too, because a job may
    request an image of its chief."""

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
        description = "A snapshot ended before its Conclude: write its summary"
        self._conclude_when_cut_short(queue, description, CUT_SHORT)

    def undo_rules(self, queue: DeadLetterQueue, workflows: Sequence[Workflow]) -> None:
        """Add the rule for Undo, which also serves runs that image their host."""
        after_execution(
            self,
            "ImageBroken",
            of=callers(self.undo, workflows),
            function=self.undo,
            dead_letter_queue=queue,
            description="An execution failed: restore the host that it imaged",
        )
