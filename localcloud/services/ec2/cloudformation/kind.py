"""Description of an EC2 resource type for CloudFormation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ministack.core.responses import new_uuid

Properties = dict[str, Any]
Call = Callable[..., Any]
"""Calls an EC2 operation by name with template values. Created by `handlers.caller`."""


@dataclass(frozen=True)
class Kind:
    """Operations that create, change and delete one resource type."""

    create: str
    """Operation with the resource's properties as parameters."""
    identify: Callable[[Any, Properties], str]
    """Returns the physical id in the operation's answer."""
    delete: Callable[[Call, str, Properties], None]
    attributes: Callable[[Call, str, Properties], Properties]
    """Returns the attributes for Fn::GetAtt, read again so that they are correct after an update."""
    tag_type: str | None = None
    prepare: Callable[[Properties, str, str], Properties] = lambda properties, logical_id, stack: properties
    """Returns the operation's parameters from (properties, logical id, stack)."""
    settle: Callable[[Call, str, Properties, Properties | None], None] = lambda call, physical_id, new, old: (
        None
    )
    """Makes further calls after a create (old is None) and after an update in place."""
    in_place: frozenset[str] = field(default_factory=frozenset)
    """Properties that `settle` can change, besides tags. Other changes replace the resource."""


def generated_name(stack: str, logical_id: str) -> str:
    return f"{stack}-{logical_id}-{new_uuid().replace('-', '')[:12].upper()}"


def id_only(name: str) -> Callable[[Call, str, Properties], Properties]:
    return lambda call, physical_id, properties: {name: physical_id}


def id_at(*keys: str) -> Callable[[Mapping[str, Any], Properties], str]:
    """Return a function that reads the physical id at this position of the answer."""

    def identify(answer: Any, properties: Properties) -> str:
        for key in keys:
            answer = answer[key]
        return str(answer)

    return identify


def deletes(operation: str, parameter: str) -> Callable[[Call, str, Properties], None]:
    """Return a function that deletes by id."""
    return lambda call, physical_id, properties: call(operation, **{parameter: physical_id})
