"""Alarms to the operator. Each names the next step. An alarm costs ten cents a month for each metric that
it watches, so few alarms watch metrics of the whole yard instead of each function
(docs/decisions/0024-few-alarms.md)."""

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.constructs.metrics import yard_metric
from trainyard.core.model.yard.metrics import Metric
from trainyard.protocol import keys


class Alarms:
    """Alarms to the yard's topic in `scope`."""

    def __init__(self, scope: Construct, yard: str, topic_arn: str) -> None:
        topic = sns.Topic.from_topic_arn(scope, "Notices", topic_arn)
        self._scope, self._yard, self._action = scope, yard, actions.SnsAction(topic)

    def on(self, name: str, metric: cloudwatch.IMetric, description: str, *, below: bool = False) -> None:
        """Raise the alarm if the metric reports anything within five minutes, or (`below`) if it reports nothing.
        Missing data means that nothing happened."""
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
        """Add the alarms on functions and runs of the whole yard."""
        self.on(
            "function-failed",
            yard_metric(self._yard, Metric.FUNCTION_FAILURES),
            "A function failed through the yard's own fault: a permission, its set-up, or a bug. The dashboard's table "
            f"of these names it; the reason is in its log, /{self._yard}/functions/<name>. Work for a run is "
            "repeated, or ends that run with the same reason.",
        )
        self.on(
            "run-failed",
            yard_metric(self._yard, Metric.RUNS_FAILED),
            "A run, bake, snapshot, or launch failed, and neither its user nor missing capacity was the cause: a "
            "permission, the yard's set-up, a host, or AWS. Lines with RunsFailed in the logs of the functions "
            "*-conclude name the run; `trainyard why RUN` says what to do. Errors of users raise no alarm.",
        )
        self.on(
            "signal-forged",
            yard_metric(self._yard, Metric.FORGED_SIGNALS),
            "A host sent a signal in the name of another host or run. The signal was ignored. Lines with "
            f"ForgedSignals in /{self._yard}/functions/signal name it: stop its run, and check its program.",
        )
        self.on(
            "run-cut-short",
            yard_metric(self._yard, Metric.RUNS_CUT_SHORT),
            "An execution was stopped by hand, timed out, or failed in its Conclude. Its hosts were terminated and "
            f"{keys.summary('<id>')} is written; the dashboard's last failures name it. If you did not stop it "
            "yourself, the yard is at fault.",
        )
