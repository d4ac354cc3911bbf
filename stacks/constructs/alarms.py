"""Alarms to the operator, each of which says what to do."""

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.constructs.function import Function


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

    def on_function(self, function: Function) -> None:
        """One alarm a metric: a sum of two is metric math, which CloudFormation on the local cloud does not know."""
        for what, metric in (
            ("fails", function.measured("Errors")),
            ("throttled", function.measured("Throttles")),
        ):
            self.on(
                f"{function.dashed}-{what}",
                metric,
                f"The function {function.word} failed or was throttled. Its log: {function.log_name}.",
            )
