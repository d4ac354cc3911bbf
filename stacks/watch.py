"""What an operator must know, and is told without asking."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from constructs import Construct

from stacks.function import Function
from stacks.images import ImagesStack
from stacks.patrol import PatrolStack
from stacks.settings import YardSettings
from stacks.training import TrainingStack
from stacks.workflow import Workflow

FIVE_MINUTES = cdk.Duration.minutes(5)

OPEN_RUNS = """\
filter type in ["ExecutionStarted", "ExecutionSucceeded", "ExecutionFailed", "ExecutionTimedOut", "ExecutionAborted"]
| stats count(*) as starts_and_ends, min(@timestamp) as started by execution_arn
| filter starts_and_ends = 1
| sort started asc
| limit 50"""
"""Runs that began and did not end, the oldest first: the age of whatever is stuck."""

LAST_FAILURES = """\
filter type = "ExecutionFailed"
| fields @timestamp, execution_arn, details.error, details.cause
| sort @timestamp desc
| limit 20"""


class WatchStack(cdk.Stack):
    """Alarms to the yard's topic, and one dashboard."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: YardSettings,
        images: ImagesStack,
        training: TrainingStack,
        patrol: PatrolStack,
    ) -> None:
        super().__init__(scope, name, description="Trainyard: dashboard and alarms")
        self.yard = settings.yard
        self.tell = actions.SnsAction(training.topic)
        functions = [*images.functions, *training.functions, *patrol.functions]
        for workflow, word in (
            (training.workflow, "train"),
            (images.workflow, "bake"),
            (training.snapshots.workflow, "snapshot"),
            (training.launches.workflow, "launch"),
        ):
            self._workflow_alarms(workflow, word)
        self._alarm(
            "retire-failed",
            images.retention.workflow.metric_failed(period=FIVE_MINUTES),
            "Images or snapshots that are due could not be deleted and go on costing. images/report.txt in the bucket "
            "says which and why; the next execution tries again.",
        )
        for function in functions:
            self._function_alarms(function)
        self._alarm(
            "dead-letters",
            training.lost.metric_approximate_number_of_messages_visible(
                period=FIVE_MINUTES, statistic="Maximum"
            ),
            "An event could not be delivered or was failed on again and again. Look into the queue: the run it belongs "
            "to may wait for it until its own time-out.",
        )
        self._alarm(
            "patrol-absent",
            patrol.patrol.metric_invocations(period=FIVE_MINUTES),
            "Patrol has not looked for five minutes: idle and lost hosts run on. Look whether its rule is enabled.",
            below=True,
        )
        self._dashboard(images, training, functions)

    def _workflow_alarms(self, workflow: Workflow, word: str) -> None:
        self._alarm(
            f"{word}-failed",
            workflow.metric_failed(period=FIVE_MINUTES),
            "A run failed. Its execution's cause and runs/<id>/summary.json say why.",
        )
        for ended, metric in (
            ("aborted", workflow.metric_aborted(period=FIVE_MINUTES)),
            ("timed-out", workflow.metric_timed_out(period=FIVE_MINUTES)),
        ):
            self._alarm(
                f"{word}-{ended}",
                metric,
                "An execution was stopped by hand or hit its last resort. Nothing was released: look for hosts with "
                "its tag trainyard:run and terminate them.",
            )

    def _function_alarms(self, function: Function) -> None:
        """One alarm a metric: a sum of two is metric math, which CloudFormation on the local cloud does not know."""
        for what, metric in (
            ("fails", function.metric_errors(period=FIVE_MINUTES)),
            ("throttled", function.metric_throttles(period=FIVE_MINUTES)),
        ):
            self._alarm(
                f"{function.dashed}-{what}",
                metric,
                f"The function {function.word} failed or was throttled. Its log: {function.log.node.path}.",
            )

    def _alarm(self, name: str, metric: cloudwatch.IMetric, description: str, *, below: bool = False) -> None:
        """One such thing within five minutes is worth a look, or (`below`) none; no data: nothing happened."""
        at_least, less = (
            cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
        )
        happened, missed = cloudwatch.TreatMissingData.NOT_BREACHING, cloudwatch.TreatMissingData.BREACHING
        alarm = cloudwatch.Alarm(
            self,
            "".join(part.capitalize() for part in name.split("-")),
            alarm_name=f"{self.yard}-{name}",
            alarm_description=description,
            metric=metric,
            threshold=1,
            evaluation_periods=1,
            comparison_operator=less if below else at_least,
            treat_missing_data=missed if below else happened,
        )
        alarm.add_alarm_action(self.tell)

    def _dashboard(self, images: ImagesStack, training: TrainingStack, functions: Sequence[Function]) -> None:
        board = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=self.yard)
        board.add_widgets(
            _executions("Runs", training.workflow),
            _executions("Bakes", images.workflow),
            cloudwatch.GraphWidget(
                title="Lost events",
                width=8,
                left=[training.lost.metric_approximate_number_of_messages_visible(statistic="Maximum")],
            ),
        )
        board.add_widgets(
            _table("Open runs, oldest first", training.workflow, OPEN_RUNS),
            _table("Last failures", training.workflow, LAST_FAILURES),
        )
        board.add_widgets(
            cloudwatch.GraphWidget(
                title="Errors and throttles",
                width=12,
                left=[metric for f in functions for metric in (f.metric_errors(), f.metric_throttles())],
            ),
            cloudwatch.GraphWidget(
                title="Duration, 99th percentile",
                width=12,
                left=[f.metric_duration(statistic="p99") for f in functions],
            ),
        )


def _executions(title: str, workflow: Workflow) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(
        title=title,
        width=8,
        left=[
            workflow.metric_started(),
            workflow.metric_succeeded(),
            workflow.metric_failed(),
            workflow.metric_aborted(),
            workflow.metric_timed_out(),
        ],
    )


def _table(title: str, workflow: Workflow, query: str) -> cloudwatch.LogQueryWidget:
    return cloudwatch.LogQueryWidget(
        title=title,
        width=12,
        height=6,
        log_group_names=[workflow.log.log_group_name],
        query_string=query,
        view=cloudwatch.LogQueryVisualizationType.TABLE,
    )
