"""Which of a yard's policies for people has an action: docs/permissions.md, of which a test holds this to be a copy."""

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
    ),
    "operator": (
        "ec2:ModifyInstanceAttribute",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        "sqs:ReceiveMessage",
    ),
}
"""The actions that a level has and none below it."""
OPERATORS = re.compile(r"/images/|:[\w-]+-(?:bake|retire)\b|stateMachine:[\w-]+-train\b|:instance/")
"""Resources of which an operator alone may change anything, but for a user's own dev hosts."""
ACTION = re.compile(r"perform:? ([a-z0-9-]+:\w+)")
RESOURCE = re.compile(r"on resource: \"?([^\s\"]+)")


def level_of(action: str, resource: str) -> str | None:
    """The lowest level that has it; None where none has, and only whoever deploys may do it."""
    found = next((level for level, actions in LOWEST.items() if action in actions), None)
    return "operator" if found == "user" and OPERATORS.search(resource) else found


def advice(action: str, resource: str) -> str:
    """Who can grant it, and what they type."""
    level = level_of(action, resource)
    if level is None:
        return (
            "none of the yard's policies has this: ask whoever deploys the yard, or choose another --profile"
        )
    grant = command_line("yard", "grant", "WHO", level)
    return (
        f"the yard's policy `{level}` has this: ask whoever deploys it to type `{grant}`, or choose another "
        "--profile"
    )
