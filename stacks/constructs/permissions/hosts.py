"""What may be done to hosts and their images. Sentences like those of the package."""

import aws_cdk as cdk

from stacks.constructs.permissions import (
    BY_TAG,
    TO_BE_MADE,
    allow,
    ec2,
    ec2_unowned,
    kms,
    tagged,
    to_be_tagged,
)
from stacks.constructs.permissions.holder import Condition, Holder
from trainyard.protocol.tags import Tag

OWN_SESSIONS = (
    "Sessions come into being later; the tag, or the session's own token, binds them to their owner."
)


def command_hosts(role: Holder, yard: str, *documents: str) -> None:
    """Run these SSM documents of the yard, on hosts of the yard."""
    prefix = f"arn:{cdk.Aws.PARTITION}:ssm:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:document/{yard}"
    allow(role, ["ssm:SendCommand"], [f"{prefix}-{each}" for each in documents])
    of_yard = {"StringEquals": {f"ssm:resourceTag/{Tag.YARD}": yard}}
    allow(role, ["ssm:SendCommand"], [ec2("instance/*")], of_yard, because=BY_TAG)


def act_on_hosts(role: Holder, yard: str, *calls: str) -> None:
    """Make these calls of EC2 on hosts of this yard only."""
    allow(role, calls, [ec2("instance/*")], tagged(yard), because=BY_TAG)


def end_hosts(role: Holder, yard: str) -> None:
    """Terminate and stop, hosts of this yard only, and have them keep their disks."""
    act_on_hosts(role, yard, "ec2:TerminateInstances", "ec2:StopInstances")
    keep_disks(role, yard)


def keep_disks(role: Holder, yard: str) -> None:
    """Have hosts of this yard stop where they would shut themselves down: no other attribute of theirs, user data least
    of all, which a host runs as root. (EC2 takes one attribute a call, and ec2:Attribute/<name> is what the request
    says of it: EC2 user guide, "Policy structure".)"""
    to_stop = {**tagged(yard)["StringEquals"], "ec2:Attribute/InstanceInitiatedShutdownBehavior": "stop"}
    allow(
        role, ["ec2:ModifyInstanceAttribute"], [ec2("instance/*")], {"StringEquals": to_stop}, because=BY_TAG
    )


def start_hosts(role: Holder, yard: str, *, key: str) -> None:
    """Start hosts of this yard again that were stopped."""
    act_on_hosts(role, yard, "ec2:StartInstances")
    kms.use_for_volumes(role, key)


def enter_hosts(role: Holder, yard: str) -> None:
    """Begin sessions on hosts of this yard."""
    of_yard = {"StringEquals": {f"ssm:resourceTag/{Tag.YARD}": yard}}
    allow(role, ["ssm:StartSession"], [ec2("instance/*")], of_yard, because=BY_TAG)


def sit_at_own_hosts(role: Holder, yard: str, *hold: str, key: str) -> None:
    """Dev hosts of this yard that are the caller's by their tags, which functions alone write: start, stop and end
    them, begin sessions on them, write the tags `hold`; and delete their images."""
    host, mine = [ec2("instance/*")], _own_dev_hosts(yard, "aws:ResourceTag")
    calls = ["ec2:StartInstances", "ec2:StopInstances", "ec2:TerminateInstances"]
    allow(role, calls, host, mine, because=BY_TAG)
    tags = {**mine, "ForAllValues:StringEquals": {"aws:TagKeys": list(hold)}}
    allow(role, ["ec2:CreateTags"], host, tags, because=BY_TAG)
    allow(role, ["ssm:StartSession"], host, _own_dev_hosts(yard, "ssm:resourceTag"), because=BY_TAG)
    images = [ec2_unowned("image/*"), ec2_unowned("snapshot/*")]
    allow(role, ["ec2:DeregisterImage", "ec2:DeleteSnapshot"], images, mine, because=BY_TAG)
    kms.use_for_volumes(role, key)


def _own_dev_hosts(yard: str, of: str) -> Condition:
    """A user of the account is its name, a session of a role the role's id and its own name."""
    owner = {f"{of}/{Tag.YARD}": yard, f"{of}/{Tag.SUBMITTER}": ["${aws:username}", "${aws:userid}"]}
    return {"StringEquals": owner, "StringLike": {f"{of}/{Tag.DEV}": "?*"}}


def use_sessions(role: Holder, *documents: str) -> None:
    """Sessions of one's own, where one may begin them: a shell, that may become root, the yard's `documents`, a port.

    Whose a session is stands in its tag. Its id begins with a user's name or that of a role's session: a pattern by
    `aws:username` would be another's, too, whose name begins like it, and none of a role's. Whoever opens the channel
    needs its token, which only who has started or resumed the session is given. AWS asks for a document that is named;
    who names none has the first. (Systems Manager user guide, "Additional sample IAM policies for Session Manager".)"""
    ssm = f"arn:{cdk.Aws.PARTITION}:ssm:{cdk.Aws.REGION}"
    known = [
        f"{ssm}:{cdk.Aws.ACCOUNT_ID}:document/SSM-SessionManagerRunShell",
        f"{ssm}::document/AWS-StartPortForwardingSession",
        f"{ssm}::document/AWS-StartSSHSession",
        *documents,
    ]
    allow(role, ["ssm:StartSession"], known)
    sessions = [f"{ssm}:{cdk.Aws.ACCOUNT_ID}:session/*"]
    own = {"StringEquals": {"ssm:resourceTag/aws:ssmmessages:session-id": "${aws:userid}"}}
    allow(role, ["ssm:ResumeSession", "ssm:TerminateSession"], sessions, own, because=OWN_SESSIONS)
    allow(role, ["ssmmessages:OpenDataChannel"], sessions, because=OWN_SESSIONS)


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
    kms.use_for_volumes(role, key)


def retire_images(role: Holder, yard: str) -> None:
    """Deregister images of this yard and delete their snapshots."""
    allow(role, ["ec2:DeregisterImage"], [ec2_unowned("image/*")], tagged(yard), because=BY_TAG)
    allow(role, ["ec2:DeleteSnapshot"], [ec2_unowned("snapshot/*")], tagged(yard), because=BY_TAG)
