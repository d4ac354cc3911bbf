"""Permissions on hosts and their images."""

import aws_cdk as cdk

from stacks.constructs.permissions import (
    BY_TAG,
    TO_BE_MADE,
    allow,
    ec2,
    ec2_unowned,
    kms,
    require_new_tag,
    require_tag,
)
from stacks.constructs.permissions.holder import Condition, Holder
from trainyard.protocol.tags import Tag

OWN_SESSIONS = "Sessions exist only later; the tag, or the session's own token, limits them to their owner."


def command_hosts(role: Holder, yard: str, *documents: str) -> None:
    """Allow running these SSM documents of the yard on its hosts."""
    prefix = f"arn:{cdk.Aws.PARTITION}:ssm:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:document/{yard}"
    allow(role, ["ssm:SendCommand"], [f"{prefix}-{each}" for each in documents])
    of_yard = {"StringEquals": {f"ssm:resourceTag/{Tag.YARD}": yard}}
    allow(role, ["ssm:SendCommand"], [ec2("instance/*")], of_yard, because=BY_TAG)


def act_on_hosts(role: Holder, yard: str, *calls: str) -> None:
    """Allow these calls of EC2 on hosts of this yard only."""
    allow(role, calls, [ec2("instance/*")], require_tag(yard), because=BY_TAG)


def end_hosts(role: Holder, yard: str) -> None:
    """Allow terminating and stopping hosts of this yard only, and keeping their disks."""
    act_on_hosts(role, yard, "ec2:TerminateInstances", "ec2:StopInstances")
    keep_disks(role, yard)


def keep_disks(role: Holder, yard: str) -> None:
    """Allow hosts of this yard to stop instead of terminate at shutdown. Other attributes stay forbidden, above all
    user data, which a host runs as root. (EC2 changes one attribute in a call, and ec2:Attribute/<name> is the
    attribute of the request: EC2 user guide, "Policy structure".)"""
    to_stop = {**require_tag(yard)["StringEquals"], "ec2:Attribute/InstanceInitiatedShutdownBehavior": "stop"}
    allow(
        role, ["ec2:ModifyInstanceAttribute"], [ec2("instance/*")], {"StringEquals": to_stop}, because=BY_TAG
    )


def start_hosts(role: Holder, yard: str, *, key: str) -> None:
    """Allow starting stopped hosts of this yard."""
    act_on_hosts(role, yard, "ec2:StartInstances")
    kms.use_for_volumes(role, key)


def enter_hosts(role: Holder, yard: str) -> None:
    """Allow sessions on hosts of this yard."""
    of_yard = {"StringEquals": {f"ssm:resourceTag/{Tag.YARD}": yard}}
    allow(role, ["ssm:StartSession"], [ec2("instance/*")], of_yard, because=BY_TAG)


def sit_at_own_hosts(role: Holder, yard: str, *hold: str, key: str) -> None:
    """Allow users to start, stop and terminate their own dev hosts, to begin sessions on them, to write the tags
    `hold`, and to delete their images. Only functions write the tags that name the owner."""
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
    """Return the condition that a dev host belongs to the caller. The tag has the name of an IAM user, or the role's
    id with the session name."""
    owner = {f"{of}/{Tag.YARD}": yard, f"{of}/{Tag.SUBMITTER}": ["${aws:username}", "${aws:userid}"]}
    return {"StringEquals": owner, "StringLike": {f"{of}/{Tag.DEV}": "?*"}}


def reach_served_hosts(role: Holder, yard: str, document: str) -> None:
    """Allow the caller's own sessions on the ports of hosts that serve a model, by the yard's `document`.

    IAM checks the host and the document of a session separately. Therefore a role with these permissions must not have
    another document, which would be a shell on these hosts."""
    served = {
        "StringEquals": {f"ssm:resourceTag/{Tag.YARD}": yard},
        "StringLike": {f"ssm:resourceTag/{Tag.SERVES}": "?*"},
    }
    allow(role, ["ssm:StartSession"], [ec2("instance/*")], served, because=BY_TAG)
    allow(role, ["ssm:StartSession"], [document])
    continue_sessions(role)


def use_sessions(role: Holder, *documents: str) -> None:
    """Allow the caller's own sessions: a shell that may become root, the yard's `documents`, a port.

    The tag of a session names its owner. Session ids begin with the name of a user or of a role's session: a pattern
    by `aws:username` would also match another user whose name begins alike, and no session of a role. Opening the
    channel needs a token that only the caller of StartSession or ResumeSession gets. AWS checks the named document;
    without one, the first applies. (Systems Manager user guide, "Additional sample IAM policies for Session
    Manager".)
    """
    ssm = f"arn:{cdk.Aws.PARTITION}:ssm:{cdk.Aws.REGION}"
    known = [
        f"{ssm}:{cdk.Aws.ACCOUNT_ID}:document/SSM-SessionManagerRunShell",
        f"{ssm}::document/AWS-StartPortForwardingSession",
        f"{ssm}::document/AWS-StartSSHSession",
        *documents,
    ]
    allow(role, ["ssm:StartSession"], known)
    continue_sessions(role)


def continue_sessions(role: Holder) -> None:
    """Allow opening, resuming and ending the caller's own sessions."""
    ssm = f"arn:{cdk.Aws.PARTITION}:ssm:{cdk.Aws.REGION}"
    sessions = [f"{ssm}:{cdk.Aws.ACCOUNT_ID}:session/*"]
    own = {"StringEquals": {"ssm:resourceTag/aws:ssmmessages:session-id": "${aws:userid}"}}
    allow(role, ["ssm:ResumeSession", "ssm:TerminateSession"], sessions, own, because=OWN_SESSIONS)
    allow(role, ["ssmmessages:OpenDataChannel"], sessions, because=OWN_SESSIONS)


def mark_hosts(role: Holder, yard: str, *keys: str) -> None:
    """Allow writing these tags only, on hosts of this yard."""
    these = require_tag(yard) | {"ForAllValues:StringEquals": {"aws:TagKeys": list(keys)}}
    allow(role, ["ec2:CreateTags"], [ec2("instance/*")], these, because=BY_TAG)


def image_hosts(role: Holder, yard: str, *, key: str) -> None:
    """Allow making images of this yard's hosts. Image and snapshots get the yard's tag."""
    allow(role, ["ec2:CreateImage"], [ec2("instance/*")], require_tag(yard), because=BY_TAG)
    made = [ec2_unowned("image/*"), ec2_unowned("snapshot/*")]
    allow(role, ["ec2:CreateImage"], made, because=TO_BE_MADE)
    allow(role, ["ec2:CreateTags"], made, require_new_tag(yard, "CreateImage"), because=BY_TAG)
    kms.use_for_volumes(role, key)


def retire_images(role: Holder, yard: str) -> None:
    """Allow deregistering images of this yard and deleting their snapshots."""
    allow(role, ["ec2:DeregisterImage"], [ec2_unowned("image/*")], require_tag(yard), because=BY_TAG)
    allow(role, ["ec2:DeleteSnapshot"], [ec2_unowned("snapshot/*")], require_tag(yard), because=BY_TAG)
