"""What ministack's CloudFormation drops on the floor: properties, and what S3 and DynamoDB refuse to delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ministack.services import dynamodb, lambda_svc, s3

from localcloud.patches import MINISTACK

RESOURCE_HANDLERS = "services.cloudformation.provisioners:_RESOURCE_HANDLERS"


def install() -> None:
    """Apply the tags of buckets and the dead-letter queues of functions; keep full buckets and protected tables."""

    def tag_bucket(name: str, properties: Mapping[str, Any]) -> None:
        s3._bucket_tags[name] = {tag["Key"]: tag["Value"] for tag in properties.get("Tags") or []}
        if not s3._bucket_tags[name]:
            s3._bucket_tags.pop(name, None)

    def set_dead_letters(name: str, properties: Mapping[str, Any]) -> None:
        function = lambda_svc._functions.get(name)
        queue = properties.get("DeadLetterConfig")
        if function is not None and queue:
            function["config"]["DeadLetterConfig"] = queue

    for kind, apply in (("AWS::S3::Bucket", tag_bucket), ("AWS::Lambda::Function", set_dead_letters)):
        stock = MINISTACK.stock(RESOURCE_HANDLERS)[kind]
        MINISTACK.extend(RESOURCE_HANDLERS, {kind: {**stock, **_followed_by(apply, stock)}})
    for kind, check in (("AWS::S3::Bucket", _is_empty), ("AWS::DynamoDB::Table", _is_unprotected)):
        stock = MINISTACK.stock(RESOURCE_HANDLERS)[kind]
        MINISTACK.extend(RESOURCE_HANDLERS, {kind: {**stock, "delete": _preceded_by(check, stock["delete"])}})


class NotDeletedError(Exception):
    """Why a resource stays, as its service says it: the reason of its event DELETE_FAILED."""


def _is_empty(name: str) -> None:
    objects = (s3._buckets.get(name) or {}).get("objects")
    versions = any(bucket == name and kept for (bucket, _), kept in s3._object_versions.items())
    if objects or versions:
        raise NotDeletedError("The bucket you tried to delete is not empty (Service: S3, Status Code: 409)")


def _is_unprotected(name: str) -> None:
    if (dynamodb._tables.get(name) or {}).get("DeletionProtectionEnabled"):
        raise NotDeletedError(
            f"Resource cannot be deleted as it is currently protected against deletion: table {name}. "
            "Disable deletion protection first. (Service: DynamoDb, Status Code: 400)"
        )


def _preceded_by(check: Callable[[str], None], delete: Any) -> Any:
    """A resource type's delete, if `check(physical id)` does not raise."""

    def deleted(physical_id: str, properties: Mapping[str, Any], *more: Any, **named: Any) -> Any:
        check(physical_id)
        return delete(physical_id, properties, *more, **named)

    return deleted


def _followed_by(apply: Any, handlers: Mapping[str, Any]) -> dict[str, Any]:
    """A resource type's create and update, each followed by `apply(physical id, properties)`."""
    create, update = handlers["create"], handlers["update"]

    def created(logical_id: str, properties: Mapping[str, Any], stack: str) -> Any:
        made = create(logical_id, properties, stack)
        apply(made[0], properties)
        return made

    def updated(
        physical_id: str, old: Mapping[str, Any], new: Mapping[str, Any], *more: Any, **named: Any
    ) -> Any:
        made = update(physical_id, old, new, *more, **named)
        apply(made[0] if isinstance(made, tuple) else physical_id, new)
        return made

    return {"create": created, "update": updated}
