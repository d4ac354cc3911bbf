"""Patrol runs every minute with minimal permissions, and acts only on hosts of this yard."""

import json
from typing import Any

import pytest

from stacks.settings import YardSettings
from tests.infrastructure.assembly import Assembly, Permission, text
from tests.infrastructure.conditions import YARD, of, tagged
from trainyard.core.model.yard import policy
from trainyard.core.model.yard.policy import Policy


def test_it_looks_every_minute_and_a_pass_that_fails_is_not_tried_again(yard: Assembly) -> None:
    (rule,) = [each for each in yard.resources("AWS::Events::Rule") if each.name.startswith("EveryMinute")]
    assert rule.properties["ScheduleExpression"] == "rate(1 minute)"
    (target,) = rule.properties["Targets"]
    assert "Patrol" in text(target["Arn"])
    assert target["RetryPolicy"]["MaximumRetryAttempts"] == 0
    (invoked,) = [
        each for each in yard.resources("AWS::Lambda::EventInvokeConfig") if each.stack == "Trainyard-Patrol"
    ]
    assert invoked.properties["MaximumRetryAttempts"] == 0
    assert invoked.properties["MaximumEventAgeInSeconds"] == 60


def test_it_may_do_this_and_nothing_else(yard: Assembly) -> None:
    found = {permission.action for permission in yard.permissions(yard.role_of("patrol"))}
    assert found == {
        "cloudwatch:GetMetricData",
        "dynamodb:BatchGetItem",
        "dynamodb:DeleteItem",
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:Query",
        "dynamodb:UpdateItem",
        "ec2:CreateTags",
        "ec2:DescribeImages",
        "ec2:DescribeInstances",
        "ec2:ModifyInstanceAttribute",
        "ec2:StopInstances",
        "ec2:TerminateInstances",
        "lambda:InvokeFunction",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "pricing:GetProducts",
        "s3:GetObject",
        "s3:ListBucket",
        "sns:Publish",
        "ssm:DescribeSessions",
        "ssm:ListCommandInvocations",
        "states:DescribeExecution",
        "states:ListExecutions",
        "states:StartExecution",
    }


@pytest.mark.parametrize("action", ["ec2:StopInstances", "ec2:TerminateInstances", "ec2:CreateTags"])
def test_it_touches_only_hosts_with_the_yards_tag(yard: Assembly, action: str) -> None:
    (permission,) = of(yard, "patrol", action)
    assert permission.resource.endswith(":instance/*")
    assert tagged(permission, "aws:ResourceTag/trainyard:yard")


def test_the_only_tag_it_writes_is_its_verdict(yard: Assembly) -> None:
    (permission,) = of(yard, "patrol", "ec2:CreateTags")
    assert permission.when["ForAllValues:StringEquals"] == {
        "aws:TagKeys": ["trainyard:verdict", "trainyard:judged-by"]
    }


def on(permissions: list[Permission]) -> list[str]:
    """Return the construct of each resource: `{TrainWorkflow85DB31D5}` or `{SignalFunction04A24701.Arn}`."""
    names = [permission.resource.strip("{}").removesuffix(".Arn") for permission in permissions]
    return sorted(name[:-8].removesuffix("Function").removesuffix("Workflow") for name in names)


def test_it_images_by_the_snapshot_workflow_and_calls_signal_and_conclude(yard: Assembly) -> None:
    assert on(of(yard, "patrol", "states:StartExecution")) == ["Snapshot"]
    called = [
        "BakeConclude", "DevHostConclude", "Signal", "SnapshotConclude", "StudyConclude", "StudyTurn", "TrainConclude",
    ]  # fmt: skip
    assert on(of(yard, "patrol", "lambda:InvokeFunction")) == called
    machines = ["Bake", "DevHost", "Snapshot", "Study", "Train"]
    assert on(of(yard, "patrol", "states:ListExecutions")) == machines
    described = [each.resource for each in of(yard, "patrol", "states:DescribeExecution")]
    assert sorted(each.split(":execution:")[1] for each in described) == [
        f"{YARD}-{each}:*" for each in ("bake", "dev-host", "snapshot", "study", "train")
    ]


def test_the_function_is_given_the_yards_policy(yard: Assembly) -> None:
    given = yard.functions["patrol"].properties["Environment"]["Variables"]["POLICY"]
    assert policy.read_policy(json.loads(given), path="policy") == Policy()


class Context:
    """The context of a construct's node."""

    def __init__(self, **context: Any) -> None:
        self.node = self
        self.context = context

    def try_get_context(self, key: str) -> Any:
        return self.context.get(key)


def test_a_policy_is_a_mapping_in_cdk_json_or_json_on_the_command_line() -> None:
    for given in ({"window_minutes": 5}, '{"window_minutes": 5}'):
        assert YardSettings.of(Context(policy=given)).policy == Policy(window_minutes=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("context", "says"),
    [
        ({"policy": '{"window_minutes": 0}'}, "context policy.window_minutes: found the number 0"),
        ({"policy": {"windows": 5}}, "context policy.windows: unknown key"),
        (
            {"policy": '{"window_minutes": "x"}'},
            'policy.window_minutes: found "x"; a number of minutes from 1 to',
        ),
        ({"policy": '{"window_minutes": NaN}'}, "policy.window_minutes: found the number nan"),
        ({"policy": '{"archive_days": 1e400}'}, "policy.archive_days: found the number inf"),
        ({"policy": '{"grace_minutes": true}'}, "policy.grace_minutes: found the boolean true"),
        ({"policy": {"idle_spot": "Keep"}}, 'policy.idle_spot: found "Keep"; allowed are archive, terminate'),
        (
            {"policy": {"idle_percent": 0, "x": 1}},
            "policy.x: unknown key; allowed are window_minutes, idle_percent",
        ),
        ({"policy": "[]"}, "context policy: found a list; a mapping with the keys window_minutes"),
        ({"policy": "{"}, 'context policy: "{" is not JSON'),
        ({"policy": f'{{"window_minutes": {"9" * 5000}}}'}, "is not JSON"),
        ({"monthly_dollars": "lots"}, "context monthly_dollars='lots': expected dollars"),
        ({"monthly_dollars": -5}, "expected dollars"),
        ({"monthly_dollars": "1e12"}, "expected dollars"),
        ({"monthly_dollars": float("nan")}, "expected dollars"),
        ({"monthly_dollars": True}, "expected dollars"),
        ({"most_dollars_per_run": "-1"}, "context most_dollars_per_run='-1': expected dollars"),
        ({"most_runs": "many"}, "context most_runs='many': expected a whole number"),
        ({"most_hosts": 1.5}, "expected a whole number; 0 for no limit"),
        ({"most_pool_hosts": 17}, "context most_pool_hosts='17': expected 0 to 16 hosts"),
        ({"most_pool_hosts": -1}, "expected 0 to 16 hosts"),
        (
            {"most_hold_hours": "a day"},
            "context most_hold_hours='a day': expected hours, like 24; 0 for no limit",
        ),
        ({"when_full": "queue"}, "context when_full='queue': expected wait or refuse"),
        ({"preempt": "sometimes"}, "context preempt='sometimes': expected true or false"),
        ({"data_buckets": "Corpus"}, "context data_buckets='Corpus': expected buckets or folders of them"),
        ({"data_buckets": "corpus,corpus"}, "expected buckets or folders of them"),
        ({"data_buckets": "corpus/a*/"}, "expected buckets or folders of them"),
        ({"data_buckets": "corpus=alias/mine"}, "expected buckets or folders of them"),
        (
            {"registries": "docker"},
            "expected ARNs of repositories of Amazon ECR, or hosts of other registries",
        ),
        ({"registries": "123456789012.dkr.ecr.us-east-1.amazonaws.com"}, "expected ARNs of repositories"),
        ({"registries": "https://nvcr.io"}, "expected ARNs of repositories"),
        ({"file_systems": "team"}, "team is not a file system; expected file systems, as a list of mappings"),
    ],
)
def test_a_wrong_policy_or_limit_is_refused_at_synth(context: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match="context") as refused:
        YardSettings.of(Context(**context))  # type: ignore[arg-type]
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            {},
            (
                "a run: $500; at once: 20 training runs with 64 hosts (others wait); a user's host: 24 hours; "
                "a month: $1000"
            ),
        ),
        (
            {
                "most_dollars_per_run": 0,
                "most_runs": 0,
                "most_hosts": 9,
                "when_full": "refuse",
                "monthly_dollars": 0,
                "most_hold_hours": 0,
            },
            (
                "a run: any sum; at once: any number of training runs with 9 hosts (others are refused); "
                "a user's host: any time; a month: any sum"
            ),
        ),
    ],
)
def test_whoever_deploys_is_shown_the_limits(given: dict[str, Any], shown: str) -> None:
    assert YardSettings.of(Context(**given)).limits == shown  # type: ignore[arg-type]


def test_the_dashboard_shows_hosts_gpus_dollars_and_verdicts(yard: Assembly) -> None:
    (board,) = [
        each for each in yard.resources("AWS::CloudWatch::Dashboard") if each.stack == "Trainyard-Patrol"
    ]
    body = text(board.properties["DashboardBody"])
    for figure in (
        "running",
        "stopped",
        "busy_percent",
        "dollars_per_hour",
        "dollars_per_hour_saved",
        "terminates",
    ):
        assert f"patrol.{figure}" in body
