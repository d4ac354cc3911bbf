"""Permissions for customer managed KMS keys that other services use.

A caller needs permission for the key of encrypted data, through the service that holds the data. EC2's service-linked
roles, which launch for fleets, need a grant. AWS managed keys need no permission. ministack evaluates key and identity
policies; this module evaluates grants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ministack.core import iam_evaluator
from ministack.core.responses import get_account_id, get_region
from ministack.services import dynamodb, kms, s3, sns, ssm

from localcloud.services.iam.checks import Check
from localcloud.services.iam.requests import Request

NAMED_BY = "x-amz-server-side-encryption-aws-kms-key-id"
VOLUMES = (
    "kms:CreateGrant",
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
"""docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html, "Permissions for IAM users"."""
GRANTED = frozenset({"CreateGrant", "Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext"})
"""Operations that a grant to a service-linked role must contain."""


def customers(named: object) -> Mapping[str, Any] | None:
    """Return the key of this id, ARN or alias if it is customer managed."""
    found: Mapping[str, Any] | None = kms._resolve_key(str(named)) if named else None
    return found


def checks_of(request: Request | None, service: str, base: Check) -> Iterator[Check]:
    """Yield the key's checks for a request for encrypted objects, rows or notifications."""
    if service == "s3":
        yield from _objects(request, base)
    elif service == "dynamodb" and ":table/" in base.resource:
        name = base.resource.rpartition(":table/")[2].partition("/")[0]
        named = ((dynamodb._tables.get(name) or {}).get("SSEDescription") or {}).get("KMSMasterKeyArn")
        yield from _through("dynamodb", named, "kms:Decrypt")
    elif service == "sns" and base.action == "sns:Publish":
        topic = sns._topics.get(base.resource) or {}
        named = topic.get("attributes", {}).get("KmsMasterKeyId")
        yield from _through("sns", named, "kms:GenerateDataKey", "kms:Decrypt")


def _objects(request: Request | None, base: Check) -> Iterator[Check]:
    bucket, _, key = base.resource.removeprefix("arn:aws:s3:::").partition("/")
    if base.action in ("s3:GetObject", "s3:GetObjectVersion"):
        found = ((s3._buckets.get(bucket) or {}).get("objects") or {}).get(key) or {}
        yield from _through("s3", found.get("preserved_headers", {}).get(NAMED_BY), "kms:Decrypt")
    elif base.action == "s3:PutObject":
        named = s3._bucket_default_sse_headers(bucket).get(NAMED_BY)
        in_parts = request is not None and {"uploads", "uploadId"} & set(request.parameters)
        actions = ("kms:GenerateDataKey", "kms:Decrypt") if in_parts else ("kms:GenerateDataKey",)
        yield from _through("s3", named, *actions)


def checks_of_parameters(asked: Mapping[str, Any], names: Sequence[str]) -> Iterator[Check]:
    """Yield the key's checks for reading or writing these parameters.

    docs.aws.amazon.com/kms/latest/developerguide/services-parameter-store.html
    """
    if asked.get("Type") == "SecureString":
        yield from _through("ssm", asked.get("KeyId"), "kms:Encrypt")
    if asked.get("WithDecryption"):
        below = f"{asked.get('Path', '').rstrip('/')}/" if asked.get("Path") else None
        paths = [name for name in ssm._parameters if below and name.startswith(below)]
        found = [ssm._select_parameter(name)[0] for name in (paths if below else names)]
        for named in sorted({str(each.get("KeyId") or "") for each in found if each}):
            yield from _through("ssm", named, "kms:Decrypt")


def checks_of_volumes(named: object) -> Iterator[Check]:
    """Yield the key's checks for a caller that launches or starts a host with an encrypted volume.

    After a denial the request still succeeds, but the host does not start.
    """
    for check in _through("ec2", named, *VOLUMES):
        context = {**check.context, "kms:grantisforawsresource": "true"}
        yield Check(check.action, check.resource, context, optional=True)


def create_grant(request: Request, base: Check) -> list[Check]:
    """Return the checks of a caller's CreateGrant, with its condition keys."""
    asked = request.fields()
    context = {
        "kms:granteeprincipal": asked.get("GranteePrincipal"),
        "kms:grantoperations": asked.get("Operations"),
        "kms:grantisforawsresource": "false",
    }
    return [Check(base.action, base.resource, {**base.context, **context})]


def is_usable(named: str) -> bool:
    key = customers(named)
    return key is None or key["KeyState"] == "Enabled"


def allows_role(named: str, role: str) -> bool:
    """Return True if a grant or the key policy lets this role use the key for a volume."""
    key = customers(named)
    if key is None:
        return True
    granted = [
        frozenset(grant["Operations"])
        for grant in kms._grants.values()
        if grant["KeyId"] == key["Arn"] and grant["GranteePrincipal"] == role
    ]
    return any(operations >= GRANTED for operations in granted) or all(
        _policy_allows(key, action, principal_arn=role) for action in VOLUMES
    )


def allows_service(named: str, service: str, action: str) -> bool:
    """Return True if the key policy allows the action to an AWS service."""
    key = customers(named)
    return key is None or _policy_allows(key, action, service=service)


def _policy_allows(
    key: Mapping[str, Any], action: str, *, principal_arn: str = "", service: str | None = None
) -> bool:
    context = iam_evaluator.EvalContext(
        principal_arn=principal_arn,
        principal_type="AssumedRole",
        principal_account=get_account_id(),
        action=action,
        resource_arn=str(key["Arn"]),
        region=get_region(),
    )
    policy = key.get("Policy") or ""
    answer = iam_evaluator.evaluate_resource_policy(policy, context, service, named_only=service is None)
    return bool(answer.decision == "Allow")


def _through(service: str, named: object, *actions: str) -> Iterator[Check]:
    key = customers(named)
    if key is not None:
        context = {"kms:viaservice": f"{service}.{get_region()}.amazonaws.com"}
        yield from (Check(action, str(key["Arn"]), context) for action in actions)
