"""Refusal of template properties that the local cloud does not apply, because AWS would apply them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from localcloud.patches import MINISTACK
from localcloud.services.cloudformation.applied import APPLIED

HANDLERS = "services.cloudformation.provisioners:_RESOURCE_HANDLERS"
CREATES = (
    "services.cloudformation.stacks:_provision_resource",
    "services.cloudformation.provisioners:_provision_resource",
)
UPDATE = "services.cloudformation.stacks:_update_resource"
TABLE = Path(__file__).with_suffix(".yaml")
KNOWN: Mapping[str, frozenset[str]] = {
    kind: frozenset(names) for kind, names in yaml.safe_load(TABLE.read_text()).items()
}
"""Supported properties by resource type."""


def install() -> None:
    """Refuse unsupported properties, and apply those that ministack ignores."""
    for name in CREATES:
        MINISTACK.replace(name, _creates(MINISTACK.stock(name)))
    stock_update = MINISTACK.stock(UPDATE)

    def update(
        kind: str, physical_id: str, old: Mapping[str, Any], new: Mapping[str, Any], *more: Any
    ) -> Any:
        refuse_unknown(kind, new)
        return stock_update(kind, physical_id, old, new, *more)

    MINISTACK.replace(UPDATE, update)
    for kind, apply in APPLIED.items():
        stock = MINISTACK.stock(HANDLERS)[kind]
        MINISTACK.extend(HANDLERS, {kind: {**stock, **_followed_by(apply, stock)}})


def refuse_unknown(kind: str, properties: Mapping[str, Any]) -> None:
    """Raise ValueError that names each unsupported property of the resource."""
    unknown = sorted(set(properties) - KNOWN.get(kind, set(properties)))
    if unknown:
        raise ValueError(
            f"The local cloud does not apply {', '.join(unknown)} of {kind}, and AWS would. "
            "Leave it out here, for example by a parameter of the template."
        )


def _creates(stock: Any) -> Any:
    def create(kind: str, logical_id: str, properties: Mapping[str, Any], stack: str) -> Any:
        refuse_unknown(kind, properties)
        return stock(kind, logical_id, properties, stack)

    return create


def _followed_by(apply: Any, handlers: Mapping[str, Any]) -> dict[str, Any]:
    """Return create and update functions that also run `apply(physical id, old properties, properties)`."""
    create, update = handlers["create"], handlers["update"]

    def created(logical_id: str, properties: Mapping[str, Any], stack: str) -> Any:
        made = create(logical_id, properties, stack)
        apply(made[0], {}, properties)
        return made

    def updated(
        physical_id: str, old: Mapping[str, Any], new: Mapping[str, Any], *more: Any, **named: Any
    ) -> Any:
        made = update(physical_id, old, new, *more, **named)
        now = made[0] if isinstance(made, tuple) else physical_id
        apply(now, old if now == physical_id else {}, new)
        return made

    return {"create": created, "update": updated}
