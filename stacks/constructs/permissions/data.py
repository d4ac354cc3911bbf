"""The bucket, the ledger, the parameters."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from stacks.constructs.acknowledge import acknowledge
from stacks.constructs.permissions.calls import allow

PREFIX = "Every object under the prefix: that is what the prefix is for."


def read_objects(role: iam.Role, bucket: s3.IBucket, *prefixes: str) -> None:
    _objects(role, bucket, ["s3:GetObject"], prefixes)


def read_versions(role: iam.Role, bucket: s3.IBucket, *prefixes: str) -> None:
    """Read exactly the version that an event speaks of."""
    _objects(role, bucket, ["s3:GetObjectVersion"], prefixes)


def write_objects(role: iam.Role, bucket: s3.IBucket, *prefixes: str) -> None:
    _objects(role, bucket, ["s3:PutObject"], prefixes)


def delete_objects(role: iam.Role, bucket: s3.IBucket, *prefixes: str) -> None:
    _objects(role, bucket, ["s3:DeleteObject"], prefixes)


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


def read_parameters(role: iam.Role, name: str, *actions: str) -> None:
    """A parameter by its name. Those that AWS publishes have no account in their ARN: `*` stands for none too."""
    account = "*" if name.startswith("/aws/") else cdk.Aws.ACCOUNT_ID
    allow(
        role,
        actions,
        [f"arn:{cdk.Aws.PARTITION}:ssm:{cdk.Aws.REGION}:{account}:parameter/{name.lstrip('/')}"],
        because="A parameter that AWS publishes: no account owns it.",
    )


def _objects(role: iam.Role, bucket: s3.IBucket, actions: Sequence[str], prefixes: Sequence[str]) -> None:
    allow(role, actions, [bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes])
    owner = cdk.Stack.of(bucket)
    exported = owner.resolve(owner.export_value(bucket.bucket_arn))["Fn::ImportValue"]
    for prefix in prefixes:
        acknowledge(role, f"IAM5[Resource::{exported}/{prefix}*]", PREFIX)
