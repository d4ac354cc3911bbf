"""The workflow retire: it deletes old images every day, after every bake, and on request."""

import aws_cdk as cdk
from aws_cdk import aws_events as events

from lambdas.workflows import retire
from stacks.constructs.alarms import Alarms
from stacks.constructs.events import DeadLetterQueue, schedule
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.workflow import Workflow


class Retire(Workflow):
    """The workflow. Its function is a state of the bake, too."""

    word = "retire"

    def __init__(self, scope: cdk.Stack, factory: FunctionFactory) -> None:
        super().__init__(scope, factory)
        self.retire = factory.make(self, retire)
        self.machine = self.state_machine(timeout=cdk.Duration.hours(1))

    def rules(self, queue: DeadLetterQueue) -> None:
        schedule(
            self,
            "Daily",
            machine=self.machine,
            dead_letter_queue=queue,
            schedule=events.Schedule.rate(cdk.Duration.days(1)),
            description="Time to retire old images",
        )

    def alarms(self, alarms: Alarms) -> None:
        alarms.on(
            "retire-failed",
            self.machine.measured.metric_failed(),
            "Due images or snapshots could not be deleted, and still cost money. images/report.txt in the bucket "
            "lists them with the reasons; the next execution tries again.",
        )
