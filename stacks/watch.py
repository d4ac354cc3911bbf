"""What an operator must know: alarms, and one dashboard."""

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from stacks.constructs.alarms import Alarms
from stacks.constructs.function import functions_of
from stacks.constructs.machine import StateMachine
from stacks.constructs.workflow import workflows_of
from stacks.images import ImagesStack
from stacks.patrol import PatrolStack
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from stacks.training import TrainingStack

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
        storage: StorageStack,
        images: ImagesStack,
        training: TrainingStack,
        patrol: PatrolStack,
    ) -> None:
        super().__init__(scope, name, description="Trainyard: dashboard and alarms")
        alarms = Alarms(self, settings.yard, storage.topic_arn)
        functions = functions_of(images, training, patrol)
        for workflow in workflows_of(images, training):
            workflow.alarms(alarms)
        for function in functions:
            alarms.on_function(function)
        patrol.alarms(alarms)
        lost = storage.queue.waiting()
        alarms.on(
            "dead-letters",
            lost,
            "An event could not be delivered or was failed on again and again. Look into the queue: the run it belongs "
            "to may wait for it until its own time-out.",
        )
        board = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=settings.yard)
        board.add_widgets(
            _executions("Runs", training.train.machine),
            _executions("Bakes", images.bake.machine),
            cloudwatch.GraphWidget(title="Dead letters", width=8, left=[lost]),
        )
        board.add_widgets(
            _table("Open runs, oldest first", training.train.machine, OPEN_RUNS),
            _table("Last failures", training.train.machine, LAST_FAILURES),
        )
        board.add_widgets(
            cloudwatch.GraphWidget(
                title="Errors and throttles",
                width=12,
                left=[
                    metric for f in functions for metric in (f.measured("Errors"), f.measured("Throttles"))
                ],
            ),
            cloudwatch.GraphWidget(
                title="Duration, 99th percentile",
                width=12,
                left=[f.measured("Duration", "p99") for f in functions],
            ),
        )


def _executions(title: str, machine: StateMachine) -> cloudwatch.GraphWidget:
    executions = machine.measured
    return cloudwatch.GraphWidget(
        title=title,
        width=8,
        left=[
            executions.metric_started(),
            executions.metric_succeeded(),
            executions.metric_failed(),
            executions.metric_aborted(),
            executions.metric_timed_out(),
        ],
    )


def _table(title: str, machine: StateMachine, query: str) -> cloudwatch.LogQueryWidget:
    return cloudwatch.LogQueryWidget(
        title=title,
        width=12,
        height=6,
        log_group_names=[machine.log_name],
        query_string=query,
        view=cloudwatch.LogQueryVisualizationType.TABLE,
    )
