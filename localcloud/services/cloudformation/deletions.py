"""What S3 and DynamoDB refuse to delete stays, and its stack says so: full buckets and protected tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ministack.services import dynamodb, s3

from localcloud.patches import MINISTACK

HANDLERS = "services.cloudformation.provisioners:_RESOURCE_HANDLERS"


class NotDeletedError(Exception):
    """Why a resource stays, as its service says it: the reason of its event DELETE_FAILED."""


def install() -> None:
    """Ask before each."""
    for kind, check in (("AWS::S3::Bucket", _is_empty), ("AWS::DynamoDB::Table", _is_unprotected)):
        stock = MINISTACK.stock(HANDLERS)[kind]
        MINISTACK.extend(HANDLERS, {kind: {**stock, "delete": _preceded_by(check, stock["delete"])}})


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
