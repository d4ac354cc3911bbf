"""Alarms to the operator, each of which says what to do.

Few, since each metric that an alarm watches costs ten cents a month, in metric math too: of what the whole yard tells
(docs/decisions/0024-few-alarms.md), not of each function.
"""

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.constructs.metrics import measured
from trainyard.core.model.yard.metrics import Metric
from trainyard.protocol import keys


class Alarms:
    """Makes alarms to the yard's topic in `scope`."""

    def __init__(self, scope: Construct, yard: str, topic_arn: str) -> None:
        topic = sns.Topic.from_topic_arn(scope, "Notices", topic_arn)
        self._scope, self._yard, self._action = scope, yard, actions.SnsAction(topic)

    def on(self, name: str, metric: cloudwatch.IMetric, description: str, *, below: bool = False) -> None:
        """One such thing within five minutes is worth a look, or (`below`) none; no data: nothing happened."""
        at_least, less = (
            cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
        )
        happened, missed = cloudwatch.TreatMissingData.NOT_BREACHING, cloudwatch.TreatMissingData.BREACHING
        alarm = cloudwatch.Alarm(
            self._scope,
            "".join(part.capitalize() for part in name.split("-")),
            alarm_name=f"{self._yard}-{name}",
            alarm_description=description,
            metric=metric,
            threshold=1,
            evaluation_periods=1,
            comparison_operator=less if below else at_least,
            treat_missing_data=missed if below else happened,
        )
        alarm.add_alarm_action(self._action)

    def on_the_whole_yard(self) -> None:
        """What any function and any run tells."""
        self.on(
            "function-failed",
            measured(self._yard, Metric.FUNCTION_FAILURES),
            "A function failed through the yard's own fault: a permission, its set-up, or a bug. The dashboard's table "
            f"of these names it; the reason is in its log, /{self._yard}/functions/<name>. What it did for a run is "
            "tried again, or ends that run with the same reason.",
        )
        self.on(
            "run-failed",
            measured(self._yard, Metric.RUNS_FAILED),
            "A run, bake, snapshot, or launch failed, and neither its user nor missing capacity was the cause: a "
            "permission, the yard's set-up, a host, or AWS. Lines with RunsFailed in the logs of the functions "
            "*-conclude name the run; `trainyard why RUN` says what to do. What users do wrong rings no alarm.",
        )
        self.on(
            "signal-forged",
            measured(self._yard, Metric.FORGED_SIGNALS),
            "A host spoke in the name of another, or of a run that is not its own. Nothing was done for it. "
            f"Lines with ForgedSignals in /{self._yard}/functions/signal name it: stop its run, and look at what its "
            "program does.",
        )
        self.on(
            "run-cut-short",
            measured(self._yard, Metric.RUNS_CUT_SHORT),
            "An execution was stopped by hand, its time was up, or it failed in its Conclude. Its hosts are ended and "
            f"{keys.summary('<id>')} is written; the dashboard's last failures name it. Nothing is to be done for one "
            "that you stopped; any other is a fault of the yard's.",
        )
