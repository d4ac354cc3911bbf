"""Patrol: one function, every minute, beside every workflow and event; and what it sees, on a dashboard."""

import json

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from stacks.constructs import permissions
from stacks.constructs.alarms import Alarms
from stacks.constructs.function import Function, FunctionFactory
from stacks.constructs.metrics import measured
from stacks.constructs.names import by_name
from stacks.constructs.permissions import kms
from stacks.constructs.permissions.hosts import end_hosts, mark_hosts
from stacks.settings import YardSettings
from stacks.storage import StorageStack
from trainyard.core.model import names
from trainyard.core.model.yard import policy
from trainyard.core.model.yard.metrics import Metric
from trainyard.protocol import keys
from trainyard.protocol.tags import Tag

MACHINES = ("train", "bake", "snapshot", "launch")
"""The state machines whose executions keep hosts."""
EXECUTIONS = "Whether an execution is over of which the ledger knows no end: their names exist only later."
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
        yard, storage = self.settings.yard, self.storage
        machines = {word: self._arn("states", "stateMachine", word) for word in MACHINES}
        called = [self._arn("lambda", "function", word) for word in ("signal", *names.CONCLUDES.values())]
        function = FunctionFactory(self, self.settings, storage.bucket, storage.table).make(
            self,
            "patrol",
            minutes=3,
            TOPIC_ARN=storage.topic_arn,
            SNAPSHOT_STATE_MACHINE_ARN=machines["snapshot"],
            STATE_MACHINE_ARNS=",".join(machines.values()),
            POLICY=json.dumps(policy.to_json(self.settings.policy), sort_keys=True),
            MONTHLY_DOLLARS=f"{self.settings.monthly_dollars:g}",
            MOST_HOSTS=str(self.settings.most_hosts),
            MOST_HOLD_HOURS=f"{self.settings.most_hold_hours:g}",
        )
        function.configure_async_invoke(retry_attempts=0, max_event_age=cdk.Duration.minutes(1))
        role = function.its_role
        permissions.anywhere(
            role,
            "ec2:DescribeInstances",
            "ec2:DescribeImages",
            "cloudwatch:GetMetricData",
            "ssm:DescribeSessions",
            "ssm:ListCommandInvocations",
            "pricing:GetProducts",
        )
        permissions.allow(role, ["states:ListExecutions"], list(machines.values()))
        runs = [self._arn("states", "execution", f"{word}:*") for word in MACHINES]
        permissions.allow(role, ["states:DescribeExecution"], runs, because=EXECUTIONS)
        permissions.allow(role, ["states:StartExecution"], [machines["snapshot"]])
        permissions.allow(role, ["lambda:InvokeFunction"], called)
        end_hosts(role, yard)
        mark_hosts(role, yard, Tag.VERDICT, Tag.JUDGED_BY)
        permissions.read_objects(role, storage.bucket, keys.RUNS)
        permissions.list_objects(role, storage.bucket, keys.RUNS)
        permissions.use_ledger(role, storage.table, "BatchGetItem", "Query", "PutItem", "DeleteItem")
        permissions.allow(role, ["sns:Publish"], [storage.topic_arn])
        kms.use_for_notices(role, self.settings.kms_key)
        return function

    def _arn(self, service: str, resource: str, word: str) -> str:
        return by_name(self, service, resource, f"{self.settings.yard}-{word}")

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
