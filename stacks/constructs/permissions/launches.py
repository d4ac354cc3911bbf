"""New hosts: where they may come from, and what they may become."""

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from stacks.constructs.permissions.calls import allow, anywhere
from stacks.constructs.permissions.hosts import BY_TAG, TO_BE_MADE, YARD_TAG, ec2, ec2_unowned


def plan_launches(role: iam.Role) -> None:
    """Quotas, prices, zones and images, and what counts against the quotas now."""
    anywhere(
        role,
        "servicequotas:GetAWSDefaultServiceQuota",
        "ec2:DescribeSpotPriceHistory",
        "ec2:DescribeInstanceTypeOfferings",
        "ec2:DescribeSubnets",
        "ec2:DescribeImages",
        "ec2:DescribeInstances",
    )
    allow(
        role,
        ["servicequotas:GetServiceQuota"],
        [f"arn:{cdk.Aws.PARTITION}:servicequotas:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:ec2/*"],
        because="The quotas of EC2: which of them counts depends on the job's instance types.",
    )


def launch_hosts(
    role: iam.Role,
    *,
    calls: Sequence[str],
    template_id: str,
    network: Sequence[str],
    pass_role: iam.IRole,
    yard: str,
    images: Mapping[str, Any] | None = None,
) -> None:
    """Launch from this template, into this network, under this host role; what comes into being carries the yard's tag.

    `calls` is RunInstances alone, or with CreateFleet. `images` narrows the images that may be started.
    """
    allow(
        role,
        calls,
        [ec2_unowned("image/*"), ec2_unowned("snapshot/*")],
        images,
        because=BY_TAG
        if images
        else "A base image is whatever the parameter of its publisher names that day.",
    )
    allow(role, calls, [ec2(f"launch-template/{template_id}"), *network])
    created = ["instance/*", "volume/*", "network-interface/*"]
    if "ec2:CreateFleet" in calls:
        allow(
            role,
            ["ec2:CreateFleet"],
            [ec2("fleet/*")],
            {"StringEquals": {f"aws:RequestTag/{YARD_TAG}": yard}},
            because=BY_TAG,
        )
        # CreateFleet tags fleet, instances and volumes; a tag on the spot request it makes could only come from the
        # template, which on-demand launches share. So no condition can hold here, and none is needed: it costs nothing.
        allow(role, calls, [ec2("spot-instances-request/*")], because=TO_BE_MADE)
    allow(
        role,
        calls,
        [ec2(kind) for kind in created],
        {"StringEquals": {f"aws:RequestTag/{YARD_TAG}": yard}},
        because=BY_TAG,
    )
    allow(
        role,
        ["ec2:CreateTags"],
        [ec2(kind) for kind in (*created, *(["fleet/*"] if "ec2:CreateFleet" in calls else []))],
        {
            "StringEquals": {
                f"aws:RequestTag/{YARD_TAG}": yard,
                "ec2:CreateAction": [call.removeprefix("ec2:") for call in calls],
            }
        },
        because=BY_TAG,
    )
    allow(
        role,
        ["iam:PassRole"],
        [pass_role.role_arn],
        {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
    )
