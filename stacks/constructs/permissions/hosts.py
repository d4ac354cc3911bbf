"""What may be done to hosts and their images. Sentences like those of the package."""

import aws_cdk as cdk

from stacks.constructs.permissions import (
    BY_TAG,
    TO_BE_MADE,
    YARD_TAG,
    allow,
    ec2,
    ec2_unowned,
    keys,
    tagged,
    to_be_tagged,
)
from stacks.constructs.permissions.holder import Holder


def command_hosts(role: Holder, document_arn: str, yard: str) -> None:
    """Run this document, on hosts of this yard."""
    allow(role, ["ssm:SendCommand"], [document_arn])
    of_yard = {"StringEquals": {f"ssm:resourceTag/{YARD_TAG}": yard}}
    allow(role, ["ssm:SendCommand"], [ec2("instance/*")], of_yard, because=BY_TAG)


def end_hosts(role: Holder, yard: str) -> None:
    """Terminate and stop, hosts of this yard only, and have them stop where they would shut themselves down: no other
    attribute of theirs, user data least of all, which a host runs as root. (EC2 takes one attribute a call, and
    ec2:Attribute/<name> is what the request says of it: EC2 user guide, "Policy structure".)"""
    calls = ["ec2:TerminateInstances", "ec2:StopInstances"]
    allow(role, calls, [ec2("instance/*")], tagged(yard), because=BY_TAG)
    to_stop = {**tagged(yard)["StringEquals"], "ec2:Attribute/InstanceInitiatedShutdownBehavior": "stop"}
    allow(
        role, ["ec2:ModifyInstanceAttribute"], [ec2("instance/*")], {"StringEquals": to_stop}, because=BY_TAG
    )


def start_hosts(role: Holder, yard: str, *, key: str) -> None:
    """Start hosts of this yard again that were stopped."""
    allow(role, ["ec2:StartInstances"], [ec2("instance/*")], tagged(yard), because=BY_TAG)
    keys.use_for_volumes(role, key)


def enter_hosts(role: Holder, yard: str) -> None:
    """Sessions of one's own on hosts of this yard: a shell, as root."""
    shell = f"arn:{cdk.Aws.PARTITION}:ssm:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:document/SSM-SessionManagerRunShell"
    of_yard = {"StringEquals": {f"ssm:resourceTag/{YARD_TAG}": yard}}
    allow(role, ["ssm:StartSession"], [ec2("instance/*")], of_yard, because=BY_TAG)
    allow(role, ["ssm:StartSession"], [shell])
    own = f"arn:{cdk.Aws.PARTITION}:ssm:*:{cdk.Aws.ACCOUNT_ID}:session/${{aws:userid}}-*"
    allow(role, ["ssm:ResumeSession", "ssm:TerminateSession"], [own], because="Sessions of one's own alone.")


def mark_hosts(role: Holder, yard: str, *keys: str) -> None:
    """Write these tags, and no others, on hosts of this yard."""
    these = tagged(yard) | {"ForAllValues:StringEquals": {"aws:TagKeys": list(keys)}}
    allow(role, ["ec2:CreateTags"], [ec2("instance/*")], these, because=BY_TAG)


def image_hosts(role: Holder, yard: str, *, key: str) -> None:
    """Make an image of a host of this yard; image and snapshots carry the yard's tag."""
    allow(role, ["ec2:CreateImage"], [ec2("instance/*")], tagged(yard), because=BY_TAG)
    made = [ec2_unowned("image/*"), ec2_unowned("snapshot/*")]
    allow(role, ["ec2:CreateImage"], made, because=TO_BE_MADE)
    allow(role, ["ec2:CreateTags"], made, to_be_tagged(yard, "CreateImage"), because=BY_TAG)
    keys.use_for_volumes(role, key)


def retire_images(role: Holder, yard: str) -> None:
    """Deregister images of this yard and delete their snapshots."""
    allow(role, ["ec2:DeregisterImage"], [ec2_unowned("image/*")], tagged(yard), because=BY_TAG)
    allow(role, ["ec2:DeleteSnapshot"], [ec2_unowned("snapshot/*")], tagged(yard), because=BY_TAG)
