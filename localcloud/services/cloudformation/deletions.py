"""Refusals of deletions: full buckets, protected tables, and IAM resources with attachments outside the template.

The resource stays, and the stack's status and events report the failure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ministack.services import dynamodb, eventbridge, iam, s3

from localcloud.patches import MINISTACK

HANDLERS = "services.cloudformation.provisioners:_RESOURCE_HANDLERS"
Properties = Mapping[str, Any]


class NotDeletedError(Exception):
    """A service's reason to refuse a deletion, shown in the event DELETE_FAILED."""


def install() -> None:
    """Check each resource before its deletion."""
    for kind, check in CHECKS.items():
        stock = MINISTACK.stock(HANDLERS)[kind]
        MINISTACK.extend(HANDLERS, {kind: {**stock, "delete": _preceded_by(check, stock["delete"])}})


def _is_empty(name: str, properties: Properties) -> None:
    objects = (s3._buckets.get(name) or {}).get("objects")
    versions = any(bucket == name and kept for (bucket, _), kept in s3._object_versions.items())
    if objects or versions:
        raise NotDeletedError("The bucket you tried to delete is not empty (Service: S3, Status Code: 409)")


def _is_unprotected(name: str, properties: Properties) -> None:
    if (dynamodb._tables.get(name) or {}).get("DeletionProtectionEnabled"):
        raise NotDeletedError(
            f"Resource cannot be deleted as it is currently protected against deletion: table {name}. "
            "Disable deletion protection first. (Service: DynamoDb, Status Code: 400)"
        )


def _check_detached(arn: str, properties: Properties) -> None:
    """Refuse to delete a policy with attachments that the template does not list.

    CloudFormation detaches the listed ones.
    """
    for store, listed in ((iam._roles, "Roles"), (iam._users, "Users"), (iam._groups, "Groups")):
        named = properties.get(listed) or ()
        if any(arn in held.get("AttachedPolicies", ()) for name, held in store.items() if name not in named):
            raise NotDeletedError(_conflict("Cannot delete a policy attached to entities."))


def _check_other_policies(attached: Collection[str], inline: Collection[str], properties: Properties) -> None:
    """Refuse a deletion if policies outside the template remain. CloudFormation removes those in the template."""
    if set(attached) - set(properties.get("ManagedPolicyArns") or ()):
        raise NotDeletedError(_conflict("Cannot delete entity, must detach all policies first."))
    if set(inline) - {each["PolicyName"] for each in properties.get("Policies") or ()}:
        raise NotDeletedError(_conflict("Cannot delete entity, must delete policies first."))


def _is_a_free_role(name: str, properties: Properties) -> None:
    role = iam._roles.get(name) or {}
    _check_other_policies(role.get("AttachedPolicies", ()), role.get("InlinePolicies", ()), properties)
    if any(name in profile.get("Roles", ()) for profile in iam._instance_profiles.values()):
        raise NotDeletedError(
            _conflict("Cannot delete entity, must remove roles from instance profile first.")
        )


def _is_a_free_user(name: str, properties: Properties) -> None:
    user = iam._users.get(name) or {}
    inline = iam._user_inline_policies.get(name) or ()
    _check_other_policies(user.get("AttachedPolicies", ()), inline, properties)
    if any(key["UserName"] == name for key in iam._access_keys.values()):
        raise NotDeletedError(_conflict("Cannot delete entity, must delete access keys first."))


def _has_no_rules(name: str, properties: Properties) -> None:
    if any(rule.get("EventBusName") == name for rule in eventbridge._rules.values()):
        raise NotDeletedError(
            "Cannot delete event bus with rules. (Service: EventBridge, Status Code: 400; "
            "Error Code: ValidationException)"
        )


def _conflict(sentence: str) -> str:
    return f"{sentence} (Service: Iam, Status Code: 409; Error Code: DeleteConflict)"


CHECKS: Mapping[str, Callable[[str, Properties], None]] = {
    "AWS::S3::Bucket": _is_empty,
    "AWS::DynamoDB::Table": _is_unprotected,
    "AWS::IAM::ManagedPolicy": _check_detached,
    "AWS::IAM::Role": _is_a_free_role,
    "AWS::IAM::User": _is_a_free_user,
    "AWS::Events::EventBus": _has_no_rules,
}
"""Checks by resource type. Each raises NotDeletedError if the service would refuse. ECR and EC2 check themselves."""


def _preceded_by(check: Callable[[str, Properties], None], delete: Any) -> Any:
    """Return a delete function that first runs `check(physical id, properties)`."""

    def deleted(physical_id: str, properties: Properties, *more: Any, **named: Any) -> Any:
        check(physical_id, properties)
        return delete(physical_id, properties, *more, **named)

    return deleted
