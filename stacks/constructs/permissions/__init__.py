"""Permissions as sentences. Each names exactly the calls of a handler, on the narrowest resource that AWS supports.

Two kinds of `*` remain, each accepted with a reason at the grant. `anywhere` grants calls without a resource
(Describe and similar). And `*` stands for an id that exists only later, narrowed by a prefix of the bucket or a tag
condition.
"""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from stacks.constructs.acknowledge import acknowledge
from stacks.constructs.permissions import kms
from stacks.constructs.permissions.holder import Condition, Holder
from trainyard.core.model.names import BY_MONTH
from trainyard.protocol.tags import Tag

METRICS = "Trainyard"
"""The namespace of the hosts' metrics."""
NO_RESOURCE = "AWS has no resource for these calls; a test compares each with AWS's own list."
PREFIX = "Every object under the prefix, which exists for that."
BY_TAG = "The ids exist only later; the condition limits them to this yard's tag."
TO_BE_MADE = "EC2 names it at its creation; CreateTags allows only this yard's tag on it."


def account_principal(service: str) -> iam.ServicePrincipal:
    """Return the service principal for this account only, so that no other account can use our resources through it
    (docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html). Lambda and EC2 name no account to a role."""
    return iam.ServicePrincipal(
        service, conditions={"StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID}}
    )


def allow(
    role: Holder,
    actions: Sequence[str],
    on: Sequence[str],
    when: Condition | None = None,
    *,
    because: str = "",
) -> None:
    """Allow actions on resources. The other sentences use this one. `because` accepts wildcards in `on`."""
    role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=list(on), conditions=when))
    for resource in on:
        if "*" in resource and because:
            acknowledge(role, f"IAM5[Resource::{_as_reported(resource)}]", because)


def anywhere(role: Holder, *actions: str) -> None:
    """Allow calls that AWS cannot limit to a resource."""
    allow(role, actions, ["*"], because=NO_RESOURCE)


def publish_metrics(role: Holder) -> None:
    """Allow metrics in Trainyard's own namespace."""
    allow(
        role,
        ["cloudwatch:PutMetricData"],
        ["*"],
        {"StringEquals": {"cloudwatch:namespace": METRICS}},
        because="AWS has no resource for this call; the condition limits it to our own namespace.",
    )


def answer_tasks(role: Holder, *answers: str) -> None:
    """Allow answers to tasks: Success, Failure, Heartbeat. A task token is its own authority, so these calls have no
    resource."""
    anywhere(role, *(f"states:SendTask{answer}" for answer in answers))


def _as_reported(resource: str) -> str:
    """Return an ARN as the rules report it."""
    for token, name in (
        (cdk.Aws.PARTITION, "AWS::Partition"),
        (cdk.Aws.REGION, "AWS::Region"),
        (cdk.Aws.ACCOUNT_ID, "AWS::AccountId"),
    ):
        resource = resource.replace(token, f"<{name}>")
    return _variables(resource)


def _variables(text: str) -> str:
    """Return policy variables as the rules report them."""
    return text.replace("${", "<").replace("}", ">")


def read_objects(role: Holder, bucket: s3.IBucket, *prefixes: str) -> None:
    _objects(role, bucket, ["s3:GetObject"], prefixes, kms.READ)


def read_versions(role: Holder, bucket: s3.IBucket, *prefixes: str) -> None:
    """Allow reading exactly the version that an event names."""
    _objects(role, bucket, ["s3:GetObjectVersion"], prefixes, kms.READ)


def write_objects(role: Holder, bucket: s3.IBucket, *prefixes: str) -> None:
    _objects(role, bucket, ["s3:PutObject"], prefixes, kms.WRITE)


def upload_objects(role: Holder, bucket: s3.IBucket, *prefixes: str, delete: bool = False) -> None:
    """Allow writing objects, and aborting uploads: parts of an unfinished upload are billed until they are deleted.

    One statement, because IAM counts the characters of a user's policy.
    """
    actions = ["s3:PutObject", "s3:AbortMultipartUpload", *(["s3:DeleteObject"] if delete else [])]
    _objects(role, bucket, actions, prefixes, kms.WRITE)


def delete_objects(role: Holder, bucket: s3.IBucket, *prefixes: str) -> None:
    _objects(role, bucket, ["s3:DeleteObject"], prefixes, ())


def list_objects(role: Holder, bucket: s3.IBucket, *prefixes: str) -> None:
    """Allow lists below these prefixes, and "not found" instead of "denied" for a missing object. IfExists is for
    missing objects, because a GetObject has no prefix. A list without a prefix also passes and returns all keys: use
    `list_prefixes` for roles whose credentials come near a program."""
    _list(role, bucket, "StringLikeIfExists", prefixes)


def list_prefixes(role: Holder, bucket: s3.IBucket, *prefixes: str) -> None:
    """Allow lists below these prefixes only. S3 answers "denied" for a missing object."""
    _list(role, bucket, "StringLike", prefixes)


def _list(role: Holder, bucket: s3.IBucket, operator: str, prefixes: Sequence[str]) -> None:
    only = {operator: {"s3:prefix": [f"{prefix}*" for prefix in prefixes]}}
    allow(role, ["s3:ListBucket"], [bucket.bucket_arn], only)


def use_ledger(role: Holder, table: dynamodb.ITable, *calls: str) -> None:
    """Allow these calls of DynamoDB on the ledger: GetItem, Query, PutItem, UpdateItem, ..."""
    allow(role, [f"dynamodb:{call}" for call in calls], [table.table_arn])
    kms.use_for_rows(role, table, calls)


def list_runs(role: Holder, table: dynamodb.ITable) -> None:
    """Allow listing runs by the ledger's index of months."""
    allow(role, ["dynamodb:Query"], [f"{table.table_arn}/index/{BY_MONTH}"])


def read_parameters(role: Holder, name: str, *actions: str) -> None:
    """Allow reading a parameter by its name."""
    allow(role, actions, [parameter(name)], because="A public parameter of AWS, without an account.")


def parameter(name: str) -> str:
    """Return the ARN of a parameter. ARNs of AWS's public parameters have no account; `*` matches that, too."""
    account = "*" if name.startswith("/aws/") else cdk.Aws.ACCOUNT_ID
    return f"arn:{cdk.Aws.PARTITION}:ssm:{cdk.Aws.REGION}:{account}:parameter/{name.lstrip('/')}"


def _objects(
    role: Holder, bucket: s3.IBucket, actions: list[str], prefixes: Sequence[str], of_key: Sequence[str]
) -> None:
    allow(role, actions, [bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes])
    kms.use_for_objects(role, bucket, of_key)
    owner = cdk.Stack.of(bucket)
    exported = owner.resolve(owner.export_value(bucket.bucket_arn))["Fn::ImportValue"]
    for prefix in prefixes:
        acknowledge(role, f"IAM5[Resource::{exported}/{_variables(prefix)}*]", PREFIX)


def require_tag(yard: str) -> Condition:
    """Return the condition that an existing resource has the yard's tag."""
    return {"StringEquals": {f"aws:ResourceTag/{Tag.YARD}": yard}}


def require_new_tag(yard: str, by: str | Sequence[str] = ()) -> Condition:
    """Return the condition that a new resource gets the yard's tag. `by` has the calls that may write the tag."""
    action = {"ec2:CreateAction": by} if by else {}
    return {"StringEquals": {f"aws:RequestTag/{Tag.YARD}": yard, **action}}


def ec2(resource: str) -> str:
    return f"arn:{cdk.Aws.PARTITION}:ec2:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:{resource}"


def ec2_unowned(resource: str) -> str:
    """Return the ARN of an image or snapshot, which names no account."""
    return f"arn:{cdk.Aws.PARTITION}:ec2:{cdk.Aws.REGION}::{resource}"
