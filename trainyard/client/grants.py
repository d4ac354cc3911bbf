"""The lowest policy for users that allows an action. A test compares this table with docs/permissions.md."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trainyard.command_line import command_line

LOWEST: Mapping[str, tuple[str, ...]] = {
    "viewer": (
        "cloudwatch:DescribeAlarms",
        "cloudwatch:GetDashboard",
        "cloudwatch:GetMetricData",
        "cloudwatch:ListMetrics",
        "dynamodb:GetItem",
        "dynamodb:Query",
        "ec2:DescribeImages",
        "ec2:DescribeInstances",
        "logs:DescribeLogStreams",
        "logs:FilterLogEvents",
        "logs:GetLogEvents",
        "logs:GetQueryResults",
        "logs:StartQuery",
        "s3:GetObject",
        "s3:ListBucket",
        "ssm:DescribeInstanceInformation",
        "ssm:DescribeParameters",
        "ssm:DescribeSessions",
        "ssm:GetParameter",
        "ssm:GetParameterHistory",
        "states:DescribeExecution",
        "states:DescribeStateMachine",
        "states:GetExecutionHistory",
        "states:ListExecutions",
    ),
    "user": (
        "ec2:CreateTags",
        "ec2:DeleteSnapshot",
        "ec2:DeregisterImage",
        "ec2:StartInstances",
        "ec2:StopInstances",
        "ec2:TerminateInstances",
        "events:PutEvents",
        "lambda:InvokeFunction",
        "s3:AbortMultipartUpload",
        "s3:DeleteObject",
        "s3:PutObject",
        "ssm:DeleteParameter",
        "ssm:PutParameter",
        "ssm:ResumeSession",
        "ssm:StartSession",
        "ssm:TerminateSession",
        "ssmmessages:OpenDataChannel",
        "states:StartExecution",
        "states:StopExecution",
        "sts:AssumeRole",
    ),
    "operator": (
        "ec2:ModifyInstanceAttribute",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        "sqs:ReceiveMessage",
    ),
}
"""The actions that a level adds to the levels below it."""
OPERATORS = re.compile(r"/images/|:[\w-]+-(?:bake|retire)\b|stateMachine:[\w-]+-train\b|:instance/")
"""Resources that only an operator may change. A user's own dev hosts are an exception."""
ACTION = re.compile(r"perform:? ([a-z0-9-]+:\w+)")
RESOURCE = re.compile(r"on resource: \"?([^\s\"]+)")


def level_of(action: str, resource: str) -> str | None:
    """Return the lowest level that allows the action, or None if only an administrator may do it."""
    found = next((level for level, actions in LOWEST.items() if action in actions), None)
    return "operator" if found == "user" and OPERATORS.search(resource) else found


def advice(action: str, resource: str) -> str:
    """Return who can grant the permission, and with which command."""
    level = level_of(action, resource)
    if level is None:
        return "none of the yard's policies allows this: ask the administrator of the yard, or choose another --profile"
    grant = command_line("yard", "grant", "WHO", level)
    return (
        f"the yard's policy `{level}` allows this: ask its administrator to run `{grant}`, or choose another "
        "--profile"
    )
