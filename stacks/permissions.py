"""Who may do what, as sentences. Each names exactly the calls a handler makes, on the narrowest resource AWS knows.

Two kinds of `*` remain. Calls for which AWS has no resource at all (Describe and the like): `anywhere` gives those and
keeps their reason. And `/*` behind a prefix, or in front of an id that only exists later: a tag condition guards those.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from stacks.acknowledge import acknowledge

YARD_TAG = "trainyard:yard"
OPEN = "{} - only what AWS gives no narrower resource for, or what a prefix or a tag condition narrows."


def allow(
    role: iam.Role, actions: Sequence[str], on: Sequence[str], when: Mapping[str, Any] | None = None
) -> None:
    """The sentence that the others are made of."""
    role.add_to_policy(
        iam.PolicyStatement(actions=list(actions), resources=list(on), conditions=dict(when or {}))
    )


def anywhere(role: iam.Role, *actions: str) -> None:
    """For calls that AWS cannot narrow to a resource; tests/infrastructure holds every one against AWS's own list."""
    allow(role, actions, ["*"])


# ---------------------------------------------------------------------------------------------- bucket and ledger


def read_objects(role: iam.Role, bucket: s3.IBucket, *prefixes: str, versions: bool = False) -> None:
    actions = ["s3:GetObject", "s3:GetObjectVersion"] if versions else ["s3:GetObject"]
    allow(role, actions, [bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes])


def write_objects(role: iam.Role, bucket: s3.IBucket, *prefixes: str) -> None:
    allow(role, ["s3:PutObject"], [bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes])


def list_objects(role: iam.Role, bucket: s3.IBucket, *prefixes: str) -> None:
    """Also what makes S3 answer "not found" rather than "denied" for an object that is not there."""
    allow(
        role,
        ["s3:ListBucket"],
        [bucket.bucket_arn],
        {"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in prefixes]}},
    )


def use_ledger(role: iam.Role, table: dynamodb.ITable, *calls: str) -> None:
    """`calls` are DynamoDB's own: GetItem, Query, PutItem, UpdateItem ..."""
    allow(role, [f"dynamodb:{call}" for call in calls], [table.table_arn])


def read_parameters(role: iam.Role, name: str, *actions: str) -> None:
    """A parameter by its name. Those that AWS publishes have no account in their ARN: `*` stands for none too."""
    account = "*" if name.startswith("/aws/") else cdk.Aws.ACCOUNT_ID
    allow(
        role,
        actions,
        [f"arn:{cdk.Aws.PARTITION}:ssm:{cdk.Aws.REGION}:{account}:parameter/{name.lstrip('/')}"],
    )


# -------------------------------------------------------------------------------------------------------- hosts


def command_hosts(role: iam.Role, document_arn: str, yard: str) -> None:
    """Run this document, on hosts of this yard."""
    allow(role, ["ssm:SendCommand"], [document_arn])
    allow(
        role,
        ["ssm:SendCommand"],
        [_ec2("instance/*")],
        {"StringEquals": {f"ssm:resourceTag/{YARD_TAG}": yard}},
    )


def end_hosts(role: iam.Role, yard: str) -> None:
    """Terminate and stop, hosts of this yard only."""
    allow(role, ["ec2:TerminateInstances", "ec2:StopInstances"], [_ec2("instance/*")], tagged(yard))


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
    allow(role, calls, [_ec2_unowned("image/*"), _ec2_unowned("snapshot/*")], images)
    allow(role, calls, [_ec2(f"launch-template/{template_id}"), *network])
    created = ["instance/*", "volume/*", "network-interface/*"]
    if "ec2:CreateFleet" in calls:
        created += ["fleet/*", "spot-instances-request/*"]
    allow(
        role,
        calls,
        [_ec2(kind) for kind in created],
        {"StringEquals": {f"aws:RequestTag/{YARD_TAG}": yard}},
    )
    allow(
        role,
        ["ec2:CreateTags"],
        [_ec2(kind) for kind in created],
        {
            "StringEquals": {
                f"aws:RequestTag/{YARD_TAG}": yard,
                "ec2:CreateAction": [call.removeprefix("ec2:") for call in calls],
            }
        },
    )
    allow(
        role,
        ["iam:PassRole"],
        [pass_role.role_arn],
        {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
    )


def image_hosts(role: iam.Role, yard: str) -> None:
    """Make an image of a host of this yard; image and snapshots carry the yard's tag."""
    allow(role, ["ec2:CreateImage"], [_ec2("instance/*")], tagged(yard))
    allow(role, ["ec2:CreateImage"], [_ec2_unowned("image/*"), _ec2_unowned("snapshot/*")])
    allow(
        role,
        ["ec2:CreateTags"],
        [_ec2_unowned("image/*"), _ec2_unowned("snapshot/*")],
        {
            "StringEquals": {
                f"aws:RequestTag/{YARD_TAG}": yard,
                "ec2:CreateAction": "CreateImage",
            }
        },
    )


def retire_images(role: iam.Role, yard: str) -> None:
    """Deregister images of this yard and delete their snapshots."""
    allow(role, ["ec2:DeregisterImage"], [_ec2_unowned("image/*")], tagged(yard))
    allow(role, ["ec2:DeleteSnapshot"], [_ec2_unowned("snapshot/*")], tagged(yard))


def answer_tasks(role: iam.Role, *answers: str) -> None:
    """`answers` are Success, Failure, Heartbeat. A token is its own authority: AWS knows no resource for these."""
    anywhere(role, *(f"states:SendTask{answer}" for answer in answers))


def tagged(yard: str) -> dict[str, dict[str, str]]:
    return {"StringEquals": {f"aws:ResourceTag/{YARD_TAG}": yard}}


def explain(role: iam.Role, reason: str) -> None:
    """Why this role's wildcards are as narrow as they can be: the acknowledgement of the rule IAM5."""
    acknowledge(role, "IAM5", OPEN.format(reason))


def _ec2(resource: str) -> str:
    return f"arn:{cdk.Aws.PARTITION}:ec2:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:{resource}"


def _ec2_unowned(resource: str) -> str:
    """Images and snapshots have no account in their name."""
    return f"arn:{cdk.Aws.PARTITION}:ec2:{cdk.Aws.REGION}::{resource}"
