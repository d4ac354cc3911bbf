"""Permissions to launch hosts, limited to the yard's templates and properties."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from stacks.constructs.permissions import (
    BY_TAG,
    TO_BE_MADE,
    allow,
    anywhere,
    ec2,
    ec2_unowned,
    require_new_tag,
)
from stacks.constructs.permissions.holder import Condition
from trainyard.core.model.instance_types import all_types


def plan_launches(role: iam.Role) -> None:
    """Allow reading quotas, prices, zones and images."""
    anywhere(
        role,
        "servicequotas:GetAWSDefaultServiceQuota",
        "ec2:DescribeSpotPriceHistory",
        "ec2:DescribeInstanceTypeOfferings",
        "ec2:DescribeSubnets",
        "ec2:DescribeImages",
    )
    allow(
        role,
        ["servicequotas:GetServiceQuota"],
        [f"arn:{cdk.Aws.PARTITION}:servicequotas:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:ec2/*"],
        because="The quotas of EC2: the job's instance types decide which one applies.",
    )


def launch_hosts(
    role: iam.Role,
    *,
    template_ids: Sequence[str],
    network: Sequence[str],
    pass_role: iam.IRole,
    yard: str,
    images: Condition | None = None,
) -> None:
    """Allow launches from these templates, into this network, with this host role. New resources have the yard's
    tag, a type of the catalogue, and metadata by token only. `images` narrows the images."""
    calls = ["ec2:CreateFleet", "ec2:RunInstances"]
    any_image = [ec2_unowned("image/*"), ec2_unowned("snapshot/*")]
    base = "The parameter of its publisher names the current base image."
    allow(role, calls, any_image, images, because=BY_TAG if images else base)
    templates = [ec2(f"launch-template/{each}") for each in template_ids]
    allow(role, calls, [*templates, *network])
    host, beside = ec2("instance/*"), [ec2("volume/*"), ec2("network-interface/*")]
    fleet, created = ec2("fleet/*"), [host, *beside]
    allow(role, ["ec2:CreateFleet"], [fleet, *created], require_new_tag(yard), because=BY_TAG)
    of_template = require_new_tag(yard) | {"ArnEquals": {"ec2:LaunchTemplate": templates}}
    allow(role, ["ec2:RunInstances"], beside, of_template, because=BY_TAG)
    allow(role, ["ec2:RunInstances"], [host], _as_hosts_are(of_template), because=BY_TAG)
    # CreateFleet tags fleet, instances and volumes; a tag on the spot request it makes could only come from the
    # template, which on-demand launches share. So no condition can hold here, and none is needed: it costs nothing.
    allow(role, calls, [ec2("spot-instances-request/*")], because=TO_BE_MADE)
    tags = require_new_tag(yard, ["CreateFleet", "RunInstances"])
    allow(role, ["ec2:CreateTags"], [*created, fleet], tags, because=BY_TAG)
    to_ec2 = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
    allow(role, ["iam:PassRole"], [pass_role.role_arn], to_ec2)


def _as_hosts_are(condition: Condition) -> Condition:
    """Return the condition with metadata by token only and a family of the catalogue, because no job can request
    another."""
    by_token = {"ec2:MetadataHttpTokens": "required"}
    families = sorted({f"{name.partition('.')[0]}.*" for name in all_types()})
    return {
        **condition,
        "StringEquals": {**condition["StringEquals"], **by_token},
        "StringLike": {"ec2:InstanceType": families},
    }
