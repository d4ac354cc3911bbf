"""Hosts of the yard, and images of them: by the yard's tag alone."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from stacks.constructs.permissions.calls import allow

YARD_TAG = "trainyard:yard"
BY_TAG = "The ids exist only later; the condition binds them to this yard's tag."
TO_BE_MADE = "Named by EC2 when it is made; CreateTags allows no tag but this yard's on it."


def command_hosts(role: iam.Role, document_arn: str, yard: str) -> None:
    """Run this document, on hosts of this yard."""
    allow(role, ["ssm:SendCommand"], [document_arn])
    allow(
        role,
        ["ssm:SendCommand"],
        [ec2("instance/*")],
        {"StringEquals": {f"ssm:resourceTag/{YARD_TAG}": yard}},
        because=BY_TAG,
    )


def end_hosts(role: iam.Role, yard: str) -> None:
    """Terminate and stop, hosts of this yard only, and have them stop where they would shut themselves down."""
    allow(
        role,
        ["ec2:TerminateInstances", "ec2:StopInstances", "ec2:ModifyInstanceAttribute"],
        [ec2("instance/*")],
        tagged(yard),
        because=BY_TAG,
    )


def start_hosts(role: iam.Role, yard: str) -> None:
    """Start hosts of this yard again that were stopped."""
    allow(role, ["ec2:StartInstances"], [ec2("instance/*")], tagged(yard), because=BY_TAG)


def mark_hosts(role: iam.Role, yard: str, *keys: str) -> None:
    """Write these tags, and no others, on hosts of this yard."""
    allow(
        role,
        ["ec2:CreateTags"],
        [ec2("instance/*")],
        {
            "StringEquals": {f"aws:ResourceTag/{YARD_TAG}": yard},
            "ForAllValues:StringEquals": {"aws:TagKeys": list(keys)},
        },
        because=BY_TAG,
    )


def image_hosts(role: iam.Role, yard: str) -> None:
    """Make an image of a host of this yard; image and snapshots carry the yard's tag."""
    allow(role, ["ec2:CreateImage"], [ec2("instance/*")], tagged(yard), because=BY_TAG)
    allow(role, ["ec2:CreateImage"], [ec2_unowned("image/*"), ec2_unowned("snapshot/*")], because=TO_BE_MADE)
    allow(
        role,
        ["ec2:CreateTags"],
        [ec2_unowned("image/*"), ec2_unowned("snapshot/*")],
        {
            "StringEquals": {
                f"aws:RequestTag/{YARD_TAG}": yard,
                "ec2:CreateAction": "CreateImage",
            }
        },
        because=BY_TAG,
    )


def retire_images(role: iam.Role, yard: str) -> None:
    """Deregister images of this yard and delete their snapshots."""
    allow(role, ["ec2:DeregisterImage"], [ec2_unowned("image/*")], tagged(yard), because=BY_TAG)
    allow(role, ["ec2:DeleteSnapshot"], [ec2_unowned("snapshot/*")], tagged(yard), because=BY_TAG)


def tagged(yard: str) -> dict[str, dict[str, str]]:
    return {"StringEquals": {f"aws:ResourceTag/{YARD_TAG}": yard}}


def ec2(resource: str) -> str:
    return f"arn:{cdk.Aws.PARTITION}:ec2:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:{resource}"


def ec2_unowned(resource: str) -> str:
    """Images and snapshots have no account in their name."""
    return f"arn:{cdk.Aws.PARTITION}:ec2:{cdk.Aws.REGION}::{resource}"
