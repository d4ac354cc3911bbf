"""Properties that ministack's CloudFormation drops on the floor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ministack.services import lambda_svc, s3

from localcloud.patches import MINISTACK

RESOURCE_HANDLERS = "services.cloudformation.provisioners:_RESOURCE_HANDLERS"


def install() -> None:
    """Apply the tags of buckets and the dead-letter queues of functions."""

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
