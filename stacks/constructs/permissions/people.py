"""Permissions of users: what they may see of a yard, and how they submit jobs."""

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3

from stacks.constructs.names import by_name
from stacks.constructs.permissions import (
    allow,
    anywhere,
    list_objects,
    list_runs,
    parameter,
    read_objects,
    upload_objects,
    use_ledger,
)
from stacks.constructs.permissions.holder import Holder
from stacks.settings import YardSettings
from trainyard.protocol import keys, sources

BY_NAME = "Executions, logs and versions exist only later; the name limits them to this yard."
BY_PREFIX = "DescribeAlarms by a prefix is allowed on all alarms or on none."
ALL_RUNS = ("train", "study", "version", "dev-host", "snapshot", "bake", "retire")
READ = (keys.RUNS, keys.JOBS, keys.IMAGES, keys.PROGRAMS, keys.DATA, keys.MODELS)


def look(who: Holder, settings: YardSettings, bucket: s3.IBucket, table: dynamodb.ITable) -> None:
    """Allow viewing runs, hosts, logs and figures."""
    yard = settings.yard
    anywhere(
        who,
        "ec2:DescribeInstances",
        "ec2:DescribeImages",
        "cloudwatch:GetMetricData",
        "cloudwatch:ListMetrics",
        "ssm:DescribeInstanceInformation",
    )
    anywhere(who, "ssm:DescribeParameters", "ssm:DescribeSessions")
    images = f"{settings.image_parameter}*"  # and the previous one: IAM counts the characters of a policy
    named = (images, settings.yard_parameter, settings.settings_parameter)
    parameters = [parameter(name) for name in named]
    allow(who, ["ssm:GetParameter", "ssm:GetParameterHistory"], parameters, because=BY_NAME)
    read_objects(who, bucket, *READ)
    list_objects(who, bucket, *READ)
    use_ledger(who, table, "GetItem", "Query")
    list_runs(who, table)
    machines = by_name(who, "states", "stateMachine", f"{yard}-*")  # the name of a yard has no hyphen
    allow(who, ["states:ListExecutions", "states:DescribeStateMachine"], [machines], because=BY_NAME)
    executions = by_name(who, "states", "execution", f"{yard}-*")
    allow(who, ["states:DescribeExecution", "states:GetExecutionHistory"], [executions], because=BY_NAME)
    groups = (f"/{yard}/*", f"/aws/vendedlogs/states/{yard}-*")
    logs = [by_name(who, "logs", "log-group", group) for group in groups]
    read = [
        "logs:FilterLogEvents",
        "logs:GetLogEvents",
        "logs:StartQuery",
        "logs:GetQueryResults",
        "logs:DescribeLogStreams",
    ]
    allow(who, read, logs, because=BY_NAME)
    alarms = by_name(who, "cloudwatch", "alarm", "*")
    allow(who, ["cloudwatch:DescribeAlarms"], [alarms], because=BY_PREFIX)
    board = f"arn:{cdk.Aws.PARTITION}:cloudwatch::{cdk.Aws.ACCOUNT_ID}:dashboard/{yard}*"
    allow(who, ["cloudwatch:GetDashboard"], [board], because=BY_NAME)


def send_jobs(who: Holder, bucket: s3.IBucket, *users: str) -> None:
    """Allow job files in the folders of these users, which start runs, and the files that they need."""
    jobs, programs, data = ([keys.owned(folder, user) for user in users] for folder in keys.SENT)
    upload_objects(who, bucket, *jobs)
    upload_objects(who, bucket, *programs, *data, delete=True)


def put_events(who: Holder, yard: str, *names: str) -> None:
    """Allow events on the yard's bus from these sources only. A source may end in `*`."""
    allow(who, ["events:PutEvents"], [by_name(who, "events", f"event-bus/{yard}")], sources.only_from(*names))


def stop_at_once(who: Holder, yard: str, *words: str) -> None:
    """Allow stopping executions of these workflows."""
    allow(who, ["states:StopExecution"], [executions_of(who, yard, word) for word in words], because=BY_NAME)


def executions_of(who: Holder, yard: str, word: str) -> str:
    return by_name(who, "states", "execution", f"{yard}-{word}:*")
