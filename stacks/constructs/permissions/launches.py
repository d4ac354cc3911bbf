"""Who may launch hosts: where they may come from, and what they may become. Sentences like those of permissions.py."""

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
    to_be_tagged,
)
from stacks.constructs.permissions.holder import Condition
from trainyard.core.model.instance_types import all_types


def plan_launches(role: iam.Role) -> None:
    """Quotas, prices, zones and images."""
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
        because="The quotas of EC2: which of them counts depends on the job's instance types.",
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
    """Launch from these templates, into this network, under this host role; what comes into being has the yard's tag,
    a type of the catalogue, and metadata by token alone.

    `images` narrows the images that may be started."""
    calls = ["ec2:CreateFleet", "ec2:RunInstances"]
    any_image = [ec2_unowned("image/*"), ec2_unowned("snapshot/*")]
    base = "A base image is whatever the parameter of its publisher names that day."
    allow(role, calls, any_image, images, because=BY_TAG if images else base)
    templates = [ec2(f"launch-template/{each}") for each in template_ids]
    allow(role, calls, [*templates, *network])
    host, beside = ec2("instance/*"), [ec2("volume/*"), ec2("network-interface/*")]
    fleet, created = ec2("fleet/*"), [host, *beside]
    allow(role, ["ec2:CreateFleet"], [fleet, *created], to_be_tagged(yard), because=BY_TAG)
    of_template = to_be_tagged(yard) | {"ArnEquals": {"ec2:LaunchTemplate": templates}}
    allow(role, ["ec2:RunInstances"], beside, of_template, because=BY_TAG)
    allow(role, ["ec2:RunInstances"], [host], _as_hosts_are(of_template), because=BY_TAG)
    # CreateFleet tags fleet, instances and volumes; a tag on the spot request it makes could only come from the
    # template, which on-demand launches share. So no condition can hold here, and none is needed: it costs nothing.
    allow(role, calls, [ec2("spot-instances-request/*")], because=TO_BE_MADE)
    tags = to_be_tagged(yard, ["CreateFleet", "RunInstances"])
    allow(role, ["ec2:CreateTags"], [*created, fleet], tags, because=BY_TAG)
    to_ec2 = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
    allow(role, ["iam:PassRole"], [pass_role.role_arn], to_ec2)


def _as_hosts_are(condition: Condition) -> Condition:
    """With metadata by token alone, and of a family of the catalogue: nobody launches what no job can ask for."""
    by_token = {"ec2:MetadataHttpTokens": "required"}
    families = sorted({f"{name.partition('.')[0]}.*" for name in all_types()})
    return {
        **condition,
        "StringEquals": {**condition["StringEquals"], **by_token},
        "StringLike": {"ec2:InstanceType": families},
    }
