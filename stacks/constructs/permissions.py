"""Who may do what, as sentences. Each names exactly the calls a handler makes, on the narrowest resource AWS knows.

Two kinds of `*` remain, each accepted with its reason where it is granted. Calls for which AWS has no resource at all
(Describe and the like): `anywhere` gives those. And `*` for an id that only exists later: a prefix of the bucket or a
tag condition narrows those.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from stacks.constructs import keys
from stacks.constructs.acknowledge import acknowledge

METRICS = "Trainyard"
"""The namespace of the hosts' metrics."""
NO_RESOURCE = "AWS gives these calls no resource to narrow them to; a test holds each against AWS's own list."
PREFIX = "Every object under the prefix: that is what the prefix is for."
YARD_TAG = "trainyard:yard"
BY_TAG = "The ids exist only later; the condition binds them to this yard's tag."
TO_BE_MADE = "Named by EC2 when it is made; CreateTags allows no tag but this yard's on it."


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


def read_objects(role: iam.Role, bucket: s3.IBucket, *prefixes: str) -> None:
    _objects(role, bucket, ["s3:GetObject"], prefixes, keys.READ)


def read_versions(role: iam.Role, bucket: s3.IBucket, *prefixes: str) -> None:
    """Read exactly the version that an event speaks of."""
    _objects(role, bucket, ["s3:GetObjectVersion"], prefixes, keys.READ)


def write_objects(role: iam.Role, bucket: s3.IBucket, *prefixes: str) -> None:
    _objects(role, bucket, ["s3:PutObject"], prefixes, keys.WRITE)


def delete_objects(role: iam.Role, bucket: s3.IBucket, *prefixes: str) -> None:
    _objects(role, bucket, ["s3:DeleteObject"], prefixes, ())


def list_objects(role: iam.Role, bucket: s3.IBucket, *prefixes: str) -> None:
    """Also what makes S3 answer "not found" rather than "denied" for an object that is not there.

    IfExists is for that second use: a GetObject has no prefix to compare.
    """
    allow(
        role,
        ["s3:ListBucket"],
        [bucket.bucket_arn],
        {"StringLikeIfExists": {"s3:prefix": [f"{prefix}*" for prefix in prefixes]}},
    )


def use_ledger(role: iam.Role, table: dynamodb.ITable, *calls: str) -> None:
    """`calls` are DynamoDB's own: GetItem, Query, PutItem, UpdateItem ..."""
    allow(role, [f"dynamodb:{call}" for call in calls], [table.table_arn])
    keys.use_for_rows(role, table, calls)


def read_parameters(role: iam.Role, name: str, *actions: str) -> None:
    """A parameter by its name. Those that AWS publishes have no account in their ARN: `*` stands for none too."""
    account = "*" if name.startswith("/aws/") else cdk.Aws.ACCOUNT_ID
    allow(
        role,
        actions,
        [f"arn:{cdk.Aws.PARTITION}:ssm:{cdk.Aws.REGION}:{account}:parameter/{name.lstrip('/')}"],
        because="A parameter that AWS publishes: no account owns it.",
    )


def _objects(
    role: iam.Role, bucket: s3.IBucket, actions: list[str], prefixes: Sequence[str], of_key: Sequence[str]
) -> None:
    allow(role, actions, [bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes])
    keys.use_for_objects(role, bucket, of_key)
    owner = cdk.Stack.of(bucket)
    exported = owner.resolve(owner.export_value(bucket.bucket_arn))["Fn::ImportValue"]
    for prefix in prefixes:
        reported = prefix.replace("${", "<").replace("}", ">")  # a policy variable
        acknowledge(role, f"IAM5[Resource::{exported}/{reported}*]", PREFIX)


def command_hosts(role: iam.Role, document_arn: str, yard: str) -> None:
    """Run this document, on hosts of this yard."""
    allow(role, ["ssm:SendCommand"], [document_arn])
    of_yard = {"StringEquals": {f"ssm:resourceTag/{YARD_TAG}": yard}}
    allow(role, ["ssm:SendCommand"], [ec2("instance/*")], of_yard, because=BY_TAG)


def end_hosts(role: iam.Role, yard: str) -> None:
    """Terminate and stop, hosts of this yard only, and have them stop where they would shut themselves down: no other
    attribute of theirs, user data least of all, which a host runs as root. (EC2 takes one attribute a call, and
    ec2:Attribute/<name> is what the request says of it: EC2 user guide, "Policy structure".)"""
    calls = ["ec2:TerminateInstances", "ec2:StopInstances"]
    allow(role, calls, [ec2("instance/*")], tagged(yard), because=BY_TAG)
    to_stop = {**tagged(yard)["StringEquals"], "ec2:Attribute/InstanceInitiatedShutdownBehavior": "stop"}
    allow(
        role, ["ec2:ModifyInstanceAttribute"], [ec2("instance/*")], {"StringEquals": to_stop}, because=BY_TAG
    )


def start_hosts(role: iam.Role, yard: str, *, key: str) -> None:
    """Start hosts of this yard again that were stopped."""
    allow(role, ["ec2:StartInstances"], [ec2("instance/*")], tagged(yard), because=BY_TAG)
    keys.use_for_volumes(role, key)


def mark_hosts(role: iam.Role, yard: str, *keys: str) -> None:
    """Write these tags, and no others, on hosts of this yard."""
    these = tagged(yard) | {"ForAllValues:StringEquals": {"aws:TagKeys": list(keys)}}
    allow(role, ["ec2:CreateTags"], [ec2("instance/*")], these, because=BY_TAG)


def image_hosts(role: iam.Role, yard: str, *, key: str) -> None:
    """Make an image of a host of this yard; image and snapshots carry the yard's tag."""
    allow(role, ["ec2:CreateImage"], [ec2("instance/*")], tagged(yard), because=BY_TAG)
    made = [ec2_unowned("image/*"), ec2_unowned("snapshot/*")]
    allow(role, ["ec2:CreateImage"], made, because=TO_BE_MADE)
    allow(role, ["ec2:CreateTags"], made, to_be_tagged(yard, "CreateImage"), because=BY_TAG)
    keys.use_for_volumes(role, key)


def retire_images(role: iam.Role, yard: str) -> None:
    """Deregister images of this yard and delete their snapshots."""
    allow(role, ["ec2:DeregisterImage"], [ec2_unowned("image/*")], tagged(yard), because=BY_TAG)
    allow(role, ["ec2:DeleteSnapshot"], [ec2_unowned("snapshot/*")], tagged(yard), because=BY_TAG)


def tagged(yard: str) -> dict[str, Any]:
    """What is there carries the yard's tag."""
    return {"StringEquals": {f"aws:ResourceTag/{YARD_TAG}": yard}}


def to_be_tagged(yard: str, by: str | Sequence[str] = ()) -> dict[str, Any]:
    """What is asked for carries the yard's tag; `by`: the calls that may write it."""
    action = {"ec2:CreateAction": by} if by else {}
    return {"StringEquals": {f"aws:RequestTag/{YARD_TAG}": yard, **action}}


def ec2(resource: str) -> str:
    return f"arn:{cdk.Aws.PARTITION}:ec2:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:{resource}"


def ec2_unowned(resource: str) -> str:
    """Images and snapshots have no account in their name."""
    return f"arn:{cdk.Aws.PARTITION}:ec2:{cdk.Aws.REGION}::{resource}"
