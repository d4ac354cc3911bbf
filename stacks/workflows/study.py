"""The workflow study: several trials of one job, to find its best parameters."""

import aws_cdk as cdk
from aws_cdk import aws_events as events

from lambdas.workflows.study import admit, conclude, keep, turn
from stacks.constructs.events import BADLY, DeadLetterQueue, rule
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.workflow import Workflow
from stacks.network import NetworkStack
from stacks.workflows.train import Train
from trainyard.protocol.trial import ENDING

LONGEST_STUDY = cdk.Duration.days(60)
"""Longer than the limits of any study, which its turns keep."""
CUT_SHORT = "Patrol stops its trials, which save."


class Study(Workflow):
    """The workflow. Its trials are executions of train."""

    word = "study"

    def __init__(
        self, scope: cdk.Stack, factory: FunctionFactory, network: NetworkStack, *, train: Train
    ) -> None:
        super().__init__(scope, factory)
        self._train = train
        self.function(admit, subnet_ids=network.subnet_ids, hosts_group=network.hosts.security_group_id)
        self.turn = self.function(turn)
        self.function(keep)
        self.conclude = self.function(conclude)
        self.machine = self.state_machine(timeout=LONGEST_STUDY, waits=True)

    def rules(self, queue: DeadLetterQueue) -> None:
        """Take a turn when a trial has ended."""
        description = "A study ended before its Conclude: write its summary"
        self._conclude_when_cut_short(queue, description, CUT_SHORT)
        rule(
            self,
            "TrialEnded",
            function=self.turn,
            dead_letter_queue=queue,
            description="A trial of a study has ended: start the next one",
            pattern=events.EventPattern(
                source=["aws.states"],
                detail_type=["Step Functions Execution Status Change"],
                detail={
                    "stateMachineArn": [self._train.machine.arn_in(self)],
                    "name": events.Match.suffix(ENDING),
                    "status": ["SUCCEEDED", *BADLY],
                },
            ),
            input={"run": events.EventField.from_path("$.detail.name")},
        )
