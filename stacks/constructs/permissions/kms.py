"""Permissions for the customer's KMS key, by service. AWS's own keys, the default, need no permission."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.permissions.holder import Condition, Holder

READ = ("kms:Decrypt",)
WRITE = ("kms:Decrypt", "kms:GenerateDataKey")
"""S3 needs Decrypt to assemble the parts of an upload
(docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html)."""
WRITE_ROWS = (
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
"""docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html"""
VOLUMES = (
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
"""For callers that create a volume from a snapshot, in addition to EC2's grant for the instance
(docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html)."""


def key_of(scope: Construct, arn: str) -> kms.IKey | None:
    """Return the key for constructs, once for a scope."""
    return kms.Key.from_key_arn(scope, "Key", arn) if arn else None


def use_for_objects(role: Holder, bucket: s3.IBucket, actions: Sequence[str]) -> None:
    if bucket.encryption_key and actions:
        _allow(role, actions, bucket.encryption_key.key_arn, _through("s3"))


def use_for_other_objects(role: Holder, key: str) -> None:
    """Allow reading objects that the key encrypts in a bucket outside the yard."""
    if key:
        _allow(role, READ, key, _through("s3"))


def use_for_rows(role: Holder, table: dynamodb.ITable, calls: Sequence[str]) -> None:
    if table.encryption_key:
        writes = any(call in ("PutItem", "UpdateItem", "DeleteItem") for call in calls)
        _allow(role, WRITE_ROWS if writes else READ, table.encryption_key.key_arn, _through("dynamodb"))


def use_for_notifications(role: Holder, key: str) -> None:
    if key:
        _allow(role, WRITE, key, _through("sns"))


def use_for_parameters(role: Holder, key: str) -> None:
    """Allow reading what the key encrypts in Parameter Store."""
    if key:
        _allow(role, READ, key, _through("ssm"))


def use_for_volumes(role: Holder, key: str) -> None:
    """Allow EC2 to use the key for a caller that launches, starts or images hosts. The grant is for an instance
    only."""
    if key:
        _allow(role, VOLUMES, key, _through("ec2"))
        for_instance = _through("ec2") | {"Bool": {"kms:GrantIsForAWSResource": "true"}}
        _allow(role, ["kms:CreateGrant"], key, for_instance)


def grant(role: Holder, key: str, to: Sequence[str]) -> None:
    """Let only these roles use the key."""
    if key:
        _allow(role, ["kms:CreateGrant"], key, {"StringEquals": {"kms:GranteePrincipal": list(to)}})


def _through(service: str) -> Condition:
    return {"StringEquals": {"kms:ViaService": f"{service}.{cdk.Aws.REGION}.amazonaws.com"}}


def _allow(role: Holder, actions: Sequence[str], key: str, when: Condition) -> None:
    role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=[key], conditions=when))
