"""Patrol: one function, every minute, beside every workflow and event; and what it sees, on a dashboard."""

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from lambdas.workflows import patrol
from stacks.constructs.alarms import Alarms
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.function import Function
from stacks.constructs.metrics import measured
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from trainyard.core.model.yard.metrics import Metric

EACH_LINE = 'filter message = "patrol"'
EVERY_FIVE_MINUTES = "by bin(5m)"
STACKED, LINE = cloudwatch.LogQueryVisualizationType.STACKEDAREA, cloudwatch.LogQueryVisualizationType.LINE
GRAPHS = (
    (
        "Hosts by state",
        STACKED,
        "max(patrol.running) as running, max(patrol.stopped) as stopped, max(patrol.going) as going",
    ),
    ("Busiest GPU of the hosts without a run, percent", LINE, "avg(patrol.busy_percent) as busy"),
    ("Dollars an hour now", LINE, "max(patrol.dollars_per_hour) as dollars"),
    ("Dollars an hour saved by stopping and ending", LINE, "sum(patrol.dollars_per_hour_saved) as saved"),
    (
        "Verdicts that were acted on",
        STACKED,
        (
            "sum(patrol.stops) as stopped, "
            "sum(patrol.archives) as archived, sum(patrol.terminates) as terminated, "
            "sum(patrol.refused) as refused, sum(patrol.deferred) as deferred"
        ),
    ),
    ("Dollars of instance hours this month", LINE, "max(patrol.dollars_this_month) as dollars"),
)
"""Of the dashboard, two a row."""


class PatrolStack(cdk.Stack):
    def __init__(
        self,
        scope: Construct,
        settings: YardSettings,
        storage: StorageStack,
    ) -> None:
        super().__init__(
            scope,
            "Patrol",
            stack_name=f"{settings.prefix}-Patrol",
            description="Trainyard: nothing runs for nothing",
        )
        self.settings, self.storage = settings, storage
        self.patrol = self._patrol()
        events.Rule(
            self,
            "EveryMinute",
            description="Time to look at all hosts",
            schedule=events.Schedule.rate(cdk.Duration.minutes(1)),
            targets=[
                targets.LambdaFunction(self.patrol, retry_attempts=0, max_event_age=cdk.Duration.minutes(1))
            ],
        )
        self._dashboard()

    def alarms(self, alarms: Alarms) -> None:
        alarms.on(
            "patrol-absent",
            measured(self.settings.yard, Metric.DOLLARS, statistic="SampleCount"),
            "No pass of patrol has come as far as counting the money for five minutes: idle and lost hosts run on. Its "
            f"log {self.patrol.log_name} says why; where that is empty, look whether its rule is enabled.",
            below=True,
        )

    def _patrol(self) -> Function:
        """A pass that fails is not tried again: the next one is a minute away, and looks at newer facts."""
        factory = FunctionFactory(self, self.settings, self.storage.bucket, self.storage.table)
        function = factory.make(self, patrol)
        function.configure_async_invoke(retry_attempts=0, max_event_age=cdk.Duration.minutes(1))
        return function

    def _dashboard(self) -> None:
        """From the one line that each pass logs: numbers of its own in CloudWatch would cost more than the looking."""
        board = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=f"{self.settings.yard}-patrol")
        graphs = [self._graph(*each) for each in GRAPHS]
        for first in range(0, len(graphs), 2):
            board.add_widgets(*graphs[first : first + 2])

    def _graph(
        self, title: str, view: cloudwatch.LogQueryVisualizationType, figures: str
    ) -> cloudwatch.IWidget:
        return cloudwatch.LogQueryWidget(
            title=title,
            width=12,
            height=6,
            log_group_names=[self.patrol.log.log_group_name],
            query_string=f"{EACH_LINE}\n| stats {figures} {EVERY_FIVE_MINUTES}",
            view=view,
        )
