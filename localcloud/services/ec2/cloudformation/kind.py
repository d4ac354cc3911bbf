"""How CloudFormation makes, changes and deletes one type of EC2's resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ministack.core.responses import new_uuid

Properties = dict[str, Any]
Call = Callable[..., Any]
"""An EC2 operation by name, with template values for parameters: `handlers.caller` makes one."""


@dataclass(frozen=True)
class Kind:
    """How one resource type is made, changed and deleted."""

    create: str
    """The operation; its parameters are the resource's properties."""
    identify: Callable[[Any, Properties], str]
    """The physical id, from the operation's answer."""
    delete: Callable[[Call, str, Properties], None]
    attributes: Callable[[Call, str, Properties], Properties]
    """What Fn::GetAtt can ask, read back so that it is true after an update too."""
    tag_type: str | None = None
    prepare: Callable[[Properties, str, str], Properties] = lambda properties, logical_id, stack: properties
    """The operation's parameters, from (properties, logical id, stack)."""
    settle: Callable[[Call, str, Properties, Properties | None], None] = lambda call, physical_id, new, old: (
        None
    )
    """What has to be said in further calls, after a create (old is None) and after an update in place."""
    in_place: frozenset[str] = field(default_factory=frozenset)
    """Properties that `settle` can change; any other change is a replacement. Tags always can."""


def generated_name(stack: str, logical_id: str) -> str:
    return f"{stack}-{logical_id}-{new_uuid().replace('-', '')[:12].upper()}"


def id_only(name: str) -> Callable[[Call, str, Properties], Properties]:
    return lambda call, physical_id, properties: {name: physical_id}


def id_at(*keys: str) -> Callable[[Mapping[str, Any], Properties], str]:
    """The physical id at this place of the answer."""

    def identify(answer: Any, properties: Properties) -> str:
        for key in keys:
            answer = answer[key]
        return str(answer)

    return identify


def deletes(operation: str, parameter: str) -> Callable[[Call, str, Properties], None]:
    """Delete by the id alone."""
    return lambda call, physical_id, properties: call(operation, **{parameter: physical_id})
