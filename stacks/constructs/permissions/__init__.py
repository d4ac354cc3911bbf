"""Who may do what, as sentences. Each names exactly the calls a handler makes, on the narrowest resource AWS knows.

Two kinds of `*` remain, each accepted with its reason where it is granted. Calls for which AWS has no resource at all
(Describe and the like): `anywhere` gives those. And `*` for an id that only exists later: a prefix of the bucket or a
tag condition narrows those.
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
NO_RESOURCE = "AWS gives these calls no resource to narrow them to; a test holds each against AWS's own list."
PREFIX = "Every object under the prefix: that is what the prefix is for."
SECRETS = "Every secret of the yard: that is what their place is for."
BY_TAG = "The ids exist only later; the condition binds them to this yard's tag."
TO_BE_MADE = "Named by EC2 when it is made; CreateTags allows no tag but this yard's on it."


def of_account(service: str) -> iam.ServicePrincipal:
    """The service when it acts for this account: nobody else's can have it use what is ours
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
    """The sentence that the others are made of. `because` accepts the wildcards in `on`."""
    role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=list(on), conditions=when))
    for resource in on:
        if "*" in resource and because:
            acknowledge(role, f"IAM5[Resource::{_as_reported(resource)}]", because)


def anywhere(role: Holder, *actions: str) -> None:
    """For calls that AWS cannot narrow to a resource."""
    allow(role, actions, ["*"], because=NO_RESOURCE)


def publish_metrics(role: Holder) -> None:
    """What hosts measure, in Trainyard's own namespace."""
    allow(
        role,
        ["cloudwatch:PutMetricData"],
        ["*"],
        {"StringEquals": {"cloudwatch:namespace": METRICS}},
        because="AWS gives this call no resource; the condition binds it to a namespace of our own.",
    )


def answer_tasks(role: Holder, *answers: str) -> None:
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
    return _variables(resource)


def _variables(text: str) -> str:
    """Policy variables as the rules report them."""
    return text.replace("${", "<").replace("}", ">")


def read_objects(role: Holder, bucket: s3.IBucket, *prefixes: str) -> None:
    _objects(role, bucket, ["s3:GetObject"], prefixes, kms.READ)


def read_versions(role: Holder, bucket: s3.IBucket, *prefixes: str) -> None:
    """Read exactly the version that an event speaks of."""
    _objects(role, bucket, ["s3:GetObjectVersion"], prefixes, kms.READ)


def write_objects(role: Holder, bucket: s3.IBucket, *prefixes: str) -> None:
    _objects(role, bucket, ["s3:PutObject"], prefixes, kms.WRITE)


def give_up_uploads(role: Holder, bucket: s3.IBucket, *prefixes: str) -> None:
    """Parts of an upload that was not finished are billed until somebody takes them away."""
    _objects(role, bucket, ["s3:AbortMultipartUpload"], prefixes, ())


def delete_objects(role: Holder, bucket: s3.IBucket, *prefixes: str) -> None:
    _objects(role, bucket, ["s3:DeleteObject"], prefixes, ())


def list_objects(role: Holder, bucket: s3.IBucket, *prefixes: str) -> None:
    """Also what makes S3 answer "not found" rather than "denied" for an object that is not there.

    IfExists is for that second use: a GetObject has no prefix to compare. A list without a prefix passes, too, and
    returns the names of all keys: `list_prefixes` is for roles whose credentials come near a program.
    """
    _list(role, bucket, "StringLikeIfExists", prefixes)


def list_prefixes(role: Holder, bucket: s3.IBucket, *prefixes: str) -> None:
    """List keys below these prefixes only. S3 answers "denied" for an object that is missing."""
    _list(role, bucket, "StringLike", prefixes)


def _list(role: Holder, bucket: s3.IBucket, operator: str, prefixes: Sequence[str]) -> None:
    only = {operator: {"s3:prefix": [f"{prefix}*" for prefix in prefixes]}}
    allow(role, ["s3:ListBucket"], [bucket.bucket_arn], only)


def use_ledger(role: Holder, table: dynamodb.ITable, *calls: str) -> None:
    """`calls` are DynamoDB's own: GetItem, Query, PutItem, UpdateItem ..."""
    allow(role, [f"dynamodb:{call}" for call in calls], [table.table_arn])
    kms.use_for_rows(role, table, calls)


def list_runs(role: Holder, table: dynamodb.ITable) -> None:
    """By the ledger's index of months."""
    allow(role, ["dynamodb:Query"], [f"{table.table_arn}/index/{BY_MONTH}"])


def read_parameters(role: Holder, name: str, *actions: str) -> None:
    """A parameter by its name."""
    allow(role, actions, [parameter(name)], because="A parameter that AWS publishes: no account owns it.")


def parameter(name: str) -> str:
    """Its ARN. Those of parameters that AWS publishes have no account: `*` stands for none too."""
    account = "*" if name.startswith("/aws/") else cdk.Aws.ACCOUNT_ID
    return f"arn:{cdk.Aws.PARTITION}:ssm:{cdk.Aws.REGION}:{account}:parameter/{name.lstrip('/')}"


def read_secrets(role: Holder, yard: str, key: str) -> None:
    """The yard's secrets, which are encrypted with its key or with AWS's own."""
    allow(role, ["ssm:GetParameters"], [_secrets(yard)], because=SECRETS)
    kms.use_for_parameters(role, key)


def keep_secrets(role: Holder, yard: str) -> None:
    """Put secrets there and take them away; not read them."""
    allow(role, ["ssm:PutParameter", "ssm:DeleteParameter"], [_secrets(yard)], because=SECRETS)


def _secrets(yard: str) -> str:
    return f"arn:{cdk.Aws.PARTITION}:ssm:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:parameter/{yard}/secrets/*"


def _objects(
    role: Holder, bucket: s3.IBucket, actions: list[str], prefixes: Sequence[str], of_key: Sequence[str]
) -> None:
    allow(role, actions, [bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes])
    kms.use_for_objects(role, bucket, of_key)
    owner = cdk.Stack.of(bucket)
    exported = owner.resolve(owner.export_value(bucket.bucket_arn))["Fn::ImportValue"]
    for prefix in prefixes:
        acknowledge(role, f"IAM5[Resource::{exported}/{_variables(prefix)}*]", PREFIX)


def tagged(yard: str) -> Condition:
    """What is there carries the yard's tag."""
    return {"StringEquals": {f"aws:ResourceTag/{Tag.YARD}": yard}}


def to_be_tagged(yard: str, by: str | Sequence[str] = ()) -> Condition:
    """What is asked for carries the yard's tag; `by`: the calls that may write it."""
    action = {"ec2:CreateAction": by} if by else {}
    return {"StringEquals": {f"aws:RequestTag/{Tag.YARD}": yard, **action}}


def ec2(resource: str) -> str:
    return f"arn:{cdk.Aws.PARTITION}:ec2:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:{resource}"


def ec2_unowned(resource: str) -> str:
    """Images and snapshots have no account in their name."""
    return f"arn:{cdk.Aws.PARTITION}:ec2:{cdk.Aws.REGION}::{resource}"
