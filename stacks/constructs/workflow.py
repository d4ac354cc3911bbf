"""A workflow with everything that belongs to it: functions and their permissions, state machine, rules, clean-up and
alarms."""

from abc import abstractmethod
from collections.abc import Sequence
from types import ModuleType
from typing import ClassVar

import aws_cdk as cdk
from constructs import Construct

from lambdas.needs import Needs
from stacks.constructs.alarms import Alarms
from stacks.constructs.events import STATUS, DeadLetterQueue, after_execution
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.function import Function, camel, functions_of
from stacks.constructs.machine import StateMachine
from stacks.constructs.permissions.grants import Launching

CUT_SHORT = (
    f"The execution ended as {STATUS} before it could conclude: it was stopped by hand, timed out, or its Conclude "
    "failed."
)


class Workflow(Construct):
    """The base of all workflows. Each makes its functions with their permissions, then its `machine`."""

    word: ClassVar[str]
    machine: StateMachine
    conclude: Function

    def __init__(self, scope: cdk.Stack, factory: FunctionFactory) -> None:
        super().__init__(scope, camel(self.word))
        self.factory, self.settings, self.yard = factory, factory.settings, factory.settings.yard
        self.bucket, self.table = factory.bucket, factory.table

    @abstractmethod
    def rules(self, queue: DeadLetterQueue) -> None:
        """Add the workflow's rules for events and schedules."""

    def alarms(self, alarms: Alarms) -> None:
        """Add the alarms that are this workflow's own."""

    def function(
        self,
        module: ModuleType,
        *,
        needs: Needs | None = None,
        launching: Launching | None = None,
        **given: str,
    ) -> Function:
        """Make the function of this workflow from the module, which may be another workflow's."""
        word = f"{self.word}.{module.__name__.rpartition('.')[2]}"
        return self.factory.make(self, module, word=word, needs=needs, launching=launching, **given)

    def state_machine(
        self, *, timeout: cdk.Duration, others: Sequence[Function] = (), waits: bool = False
    ) -> StateMachine:
        """Make the state machine of the functions made so far and `others`. With `waits`, states wait for events, and
        check by themselves after a while."""
        machine = StateMachine(
            self,
            self.word,
            settings=self.settings,
            functions=[*functions_of(self), *others],
            timeout=timeout,
            waits=waits,
        )
        name = f"{camel(self.word)}StateMachineArn"
        cdk.CfnOutput(cdk.Stack.of(self), name, value=machine.state_machine_arn)
        return machine

    def _conclude_when_cut_short(
        self,
        queue: DeadLetterQueue,
        description: str,
        reason: str,
    ) -> None:
        """Conclude a run whose execution failed or was stopped. `reason` ends the sentence of the reason with the
        outcome for hosts and images."""
        after_execution(
            self,
            "CutShort",
            of=[self.machine],
            function=self.conclude,
            dead_letter_queue=queue,
            description=description,
            input={
                "cut_short": True,
                "outcome": {"kind": "error", "error": "Aborted", "reason": f"{CUT_SHORT} {reason}"},
            },
        )


def callers(function: Function, workflows: Sequence[Workflow]) -> list[StateMachine]:
    """Return the state machines that call the function."""
    return [each.machine for each in workflows if function in each.machine.functions]


def workflows_of(*stacks: cdk.Stack) -> list[Workflow]:
    """Return all workflows in these stacks."""
    return [node for stack in stacks for node in stack.node.find_all() if isinstance(node, Workflow)]
