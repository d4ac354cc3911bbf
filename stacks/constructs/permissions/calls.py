"""What the other sentences are made of, and the calls that AWS knows no resource for."""

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from stacks.constructs.acknowledge import acknowledge

METRICS = "Trainyard"
"""The namespace of the hosts' metrics."""
NO_RESOURCE = "AWS gives these calls no resource to narrow them to; a test holds each against AWS's own list."


def allow(
    role: iam.Role,
    actions: Sequence[str],
    on: Sequence[str],
    when: Mapping[str, Any] | None = None,
    *,
    because: str = "",
) -> None:
    """The sentence that the others are made of. `because` accepts the wildcards in `on`."""
    role.add_to_policy(
        iam.PolicyStatement(actions=list(actions), resources=list(on), conditions=dict(when or {}))
    )
    for resource in on:
        if "*" in resource and because:
            acknowledge(role, f"IAM5[Resource::{_as_reported(resource)}]", because)


def anywhere(role: iam.Role, *actions: str) -> None:
    """For calls that AWS cannot narrow to a resource."""
    allow(role, actions, ["*"], because=NO_RESOURCE)


def publish_metrics(role: iam.Role) -> None:
    """What hosts measure, in Trainyard's own namespace."""
    allow(
        role,
        ["cloudwatch:PutMetricData"],
        ["*"],
        {"StringEquals": {"cloudwatch:namespace": METRICS}},
        because="AWS gives this call no resource; the condition binds it to a namespace of our own.",
    )


def answer_tasks(role: iam.Role, *answers: str) -> None:
    """`answers` are Success, Failure, Heartbeat. A token is its own authority: AWS knows no resource for these."""
    anywhere(role, *(f"states:SendTask{answer}" for answer in answers))


def _as_reported(resource: str) -> str:
    """An ARN as the rules report it."""
    for token, name in (
        (cdk.Aws.PARTITION, "AWS::Partition"),
        (cdk.Aws.REGION, "AWS::Region"),
        (cdk.Aws.ACCOUNT_ID, "AWS::AccountId"),
    ):
        resource = resource.replace(token, f"<{name}>")
    return resource
