"""AWS::EC2::* for CloudFormation: each type has one API call to create, optional further calls, and one to delete.

ministack's engine calls create, update and delete. If a property cannot change in place, update returns a new resource,
and the engine deletes the old one after the update.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from localcloud.patches import MINISTACK
from localcloud.services.ec2.cloudformation.kind import (
    Call,
    Kind,
    Properties,
)
from localcloud.services.ec2.cloudformation.kinds import KINDS


def caller(client: Callable[[], Any]) -> Call:
    """Return a function that calls an operation with template values. Unknown members are left out."""

    def call(operation: str, **parameters: Any) -> Any:
        ec2 = client()
        shape = ec2.meta.service_model.operation_model(ec2.meta.method_to_api_mapping[operation]).input_shape
        return getattr(ec2, operation)(**coerce(shape, parameters))

    return call


def coerce(shape: Any, value: Any) -> Any:
    """Convert a template value, which may be a string, to the type of this shape."""
    kind = shape.type_name
    if kind == "structure":
        members = {
            name: given for name, given in value.items() if name in shape.members and given is not None
        }
        return {name: coerce(shape.members[name], given) for name, given in members.items()}
    if kind == "list":
        return [coerce(shape.member, item) for item in (value if isinstance(value, list) else [value])]
    if kind == "boolean":
        return str(value).lower() == "true"
    if kind in ("integer", "long"):
        return int(value)
    if kind in ("float", "double"):
        return float(value)
    if kind == "string":
        return _text(value)
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def install(client: Callable[[], Any]) -> None:
    """Add every type of the table to ministack's CloudFormation.

    `client` returns EC2's client in the current region.
    """
    call = caller(client)
    handlers = {
        name: {
            "create": _creator(call, kind),
            "update": _updater(call, kind),
            "update_with_logical_id": True,
            "delete": _deleter(call, kind),
        }
        for name, kind in KINDS.items()
    }
    MINISTACK.extend("services.cloudformation.provisioners:_RESOURCE_HANDLERS", handlers)


def _creator(call: Call, kind: Kind) -> Callable[[str, Properties, str], tuple[str, Properties]]:
    def create(logical_id: str, properties: Properties, stack: str) -> tuple[str, Properties]:
        parameters = {name: value for name, value in properties.items() if name != "Tags"}
        if kind.tag_type and properties.get("Tags"):
            tags = [{"ResourceType": kind.tag_type, "Tags": properties["Tags"]}]
            parameters["TagSpecifications"] = [*parameters.get("TagSpecifications", []), *tags]
        answer = call(kind.create, **kind.prepare(parameters, logical_id, stack))
        physical_id = kind.identify(answer, properties)
        kind.settle(call, physical_id, properties, None)
        return physical_id, kind.attributes(call, physical_id, properties)

    return create


def _updater(call: Call, kind: Kind) -> Callable[..., tuple[str, Properties]]:
    def update(
        physical_id: str, old: Properties, new: Properties, stack: str, logical_id: str
    ) -> tuple[str, Properties]:
        changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        if changed - {"Tags"} - kind.in_place:
            return _creator(call, kind)(logical_id, new, stack)
        if "Tags" in changed:
            _retag(call, physical_id, old, new)
        kind.settle(call, physical_id, new, old)
        return physical_id, kind.attributes(call, physical_id, new)

    return update


def _deleter(call: Call, kind: Kind) -> Callable[[str, Properties], None]:
    def delete(physical_id: str, properties: Properties) -> None:
        """Delete the resource. Missing resources are fine; any other refusal fails the stack's deletion."""
        try:
            kind.delete(call, physical_id, properties)
        except ClientError as error:
            if not _already_gone(error.response["Error"]["Code"]):
                raise

    return delete


def _already_gone(code: str) -> bool:
    return "NotFound" in code or code in ("InvalidAssociationID", "Gateway.NotAttached")


def _retag(call: Call, physical_id: str, old: Properties, new: Properties) -> None:
    before, after = ({tag["Key"]: tag["Value"] for tag in p.get("Tags") or []} for p in (old, new))
    if gone := before.keys() - after.keys():
        call("delete_tags", Resources=[physical_id], Tags=[{"Key": key} for key in sorted(gone)])
    if after:
        call("create_tags", Resources=[physical_id], Tags=[{"Key": k, "Value": v} for k, v in after.items()])
