"""Patrol: one function, every minute, independent of workflows and events, and a dashboard of its passes."""

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from lambdas.workflows import patrol
from stacks.constructs.alarms import Alarms
from stacks.constructs.factory import FunctionFactory
from stacks.constructs.function import Function
from stacks.constructs.metrics import yard_metric
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
    (
        "Dollars an hour saved by stopping and terminating",
        LINE,
        "sum(patrol.dollars_per_hour_saved) as saved",
    ),
    (
        "Verdicts carried out",
        STACKED,
        (
            "sum(patrol.stops) as stopped, "
            "sum(patrol.archives) as archived, sum(patrol.terminates) as terminated, "
            "sum(patrol.refused) as refused, sum(patrol.deferred) as deferred"
        ),
    ),
    ("Dollars for instances this month", LINE, "max(patrol.dollars_this_month) as dollars"),
)
"""Widgets of the dashboard, two in a row."""


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
            description="Trainyard: patrol of idle and orphaned hosts",
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
            yard_metric(self.settings.yard, Metric.DOLLARS, statistic="SampleCount"),
            "For five minutes no pass of patrol has counted the money, so idle and lost hosts keep running. Its log "
            f"{self.patrol.log_name} contains the reason; if it is empty, check that its rule is enabled.",
            below=True,
        )

    def _patrol(self) -> Function:
        """Return the function. A failed pass is not repeated, because the next one follows within a minute with
        newer data."""
        factory = FunctionFactory(self, self.settings, self.storage.bucket, self.storage.table)
        function = factory.make(self, patrol)
        function.configure_async_invoke(retry_attempts=0, max_event_age=cdk.Duration.minutes(1))
        return function

    def _dashboard(self) -> None:
        """Add the dashboard, from the line that each pass logs: custom metrics in CloudWatch would cost more than
        patrol itself."""
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
