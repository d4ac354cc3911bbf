"""Alarms and one dashboard for the operator."""

import re

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from stacks.constructs.alarms import Alarms
from stacks.constructs.function import functions_of
from stacks.constructs.machine import StateMachine
from stacks.constructs.metrics import yard_metric
from stacks.constructs.workflow import workflows_of
from stacks.images import ImagesStack
from stacks.patrol import PatrolStack
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from stacks.training import TrainingStack
from trainyard.core.model.yard.metrics import Metric
from trainyard.protocol.plan import RefusalKind

OPEN_RUNS = """\
filter message = "open run"
| stats max(@timestamp) as seen, latest(kind) as workflow, latest(state) as in_state, latest(attempt) as in_attempt,
    latest(hours) as hours_old by run
| sort seen desc, hours_old desc
| limit 50"""
"""Each pass of patrol logs the running runs, however old they are. A run that was `seen` some minutes before the
others has ended."""

LAST_FAILURES = """\
filter type in ["ExecutionFailed", "ExecutionTimedOut", "ExecutionAborted"]
| fields @timestamp, type, execution_arn, details.error, details.cause
| sort @timestamp desc
| limit 20"""

REFUSALS = f"""\
filter ispresent({Metric.LAUNCHES_REFUSED}.0)
| stats count(*) as refusals, max(@timestamp) as last by pool, kind, code
| sort refusals desc
| limit 50"""


FAULTS = f"""\
filter ispresent({Metric.FUNCTION_FAILURES}.0)
| fields @timestamp, function_name, error, run, attempt
| sort @timestamp desc
| limit 20"""


LEFT_OUT = re.compile(r".*\.recover|version\..*|prepare|predict|notify|try_webhook|retire")
"""Functions without an error graph of their own: they only decide, make no hosts, end with the deployment, or answer a
user who reads the error. The dead letters show failures of notify, and an alarm shows failures of retire."""


class WatchStack(cdk.Stack):
    """Alarms to the yard's topic, and one dashboard. It has at most 50 metrics, because AWS gives each account three
    such dashboards for free."""

    def __init__(
        self,
        scope: Construct,
        settings: YardSettings,
        storage: StorageStack,
        images: ImagesStack,
        training: TrainingStack,
        patrol: PatrolStack,
    ) -> None:
        super().__init__(
            scope,
            "Watch",
            stack_name=f"{settings.prefix}-Watch",
            description="Trainyard: dashboard and alarms",
        )
        yard, workflows = settings.yard, workflows_of(images, training)
        alarms = Alarms(self, yard, storage.topic_arn)
        alarms.on_the_whole_yard()
        for workflow in workflows:
            workflow.alarms(alarms)
        patrol.alarms(alarms)
        lost = storage.queue.waiting()
        alarms.on(
            "dead-letters",
            lost,
            "An event could not be delivered, or a function kept failing on it. Read the queue: its run may wait for "
            "the event until it times out.",
        )
        functions = functions_of(images, training, patrol)
        board = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=yard)
        board.add_widgets(
            _executions("Runs", training.train.machine),
            _executions("Bakes", images.bake.machine),
            _graph(
                "Dead letters, failed or stopped runs, forged signals",
                [
                    lost,
                    yard_metric(yard, Metric.RUNS_FAILED),
                    yard_metric(yard, Metric.RUNS_CUT_SHORT),
                    yard_metric(yard, Metric.FORGED_SIGNALS),
                ],
                width=8,
            ),
        )
        board.add_widgets(
            _table("Open runs, as of the last patrol", [patrol.patrol.log_name], OPEN_RUNS),
            _table("Last failures", [each.machine.log_name for each in workflows], LAST_FAILURES),
        )
        board.add_widgets(
            _graph(
                "Hosts launched and recoveries",
                [yard_metric(yard, Metric.HOSTS_LAUNCHED), yard_metric(yard, Metric.RECOVERIES)],
            ),
            _graph(
                "Capacity pools that refused, by kind",
                [yard_metric(yard, Metric.LAUNCHES_REFUSED, kind=kind.value) for kind in RefusalKind],
            ),
            _graph("Dollars spent", [yard_metric(yard, Metric.DOLLARS)]),
            _graph("Seconds of recoveries, for ended runs", [yard_metric(yard, Metric.SECONDS_LOST)]),
        )
        board.add_widgets(
            _table(
                "Pools that refused",
                [each.log_name for each in functions if each.word.endswith(".launch")],
                REFUSALS,
            ),
            _table("The yard's own faults", [each.log_name for each in functions], FAULTS),
        )
        board.add_widgets(
            _graph(
                "Errors of functions",
                [
                    yard_metric(yard, Metric.FUNCTION_FAILURES),
                    # a free dashboard has 50 metrics; the first one includes the functions that are left out
                    *(each.aws_metric("Errors") for each in functions if not LEFT_OUT.fullmatch(each.word)),
                ],
                width=24,
            ),
        )


def _graph(title: str, metrics: list[cloudwatch.Metric], *, width: int = 6) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, width=width, left=[*metrics])


def _executions(title: str, machine: StateMachine) -> cloudwatch.GraphWidget:
    executions = machine.measured
    ended = [executions.metric_succeeded(), executions.metric_failed()]
    return cloudwatch.GraphWidget(title=title, width=8, left=ended)


def _table(title: str, log_names: list[str], query: str) -> cloudwatch.LogQueryWidget:
    return cloudwatch.LogQueryWidget(
        title=title,
        width=12,
        height=6,
        log_group_names=log_names,
        query_string=query,
        view=cloudwatch.LogQueryVisualizationType.TABLE,
    )
