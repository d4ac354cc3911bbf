"""Paths into an item: read and replace the value at a path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simulation.aws.dynamodb.values import Item, Value, invalid

Names = Mapping[str, str]
Path = tuple[str | int, ...]
"""Names (or their `#` aliases) and indexes."""


def without_aliases(path: Path, names: Names) -> Path:
    return tuple(names.get(part, part) if isinstance(part, str) else part for part in path)


def value_at(item: Item, path: Iterable[str | int]) -> Value | None:
    value: Any = {"M": item}
    for part in path:
        inside = (value or {}).get("M" if isinstance(part, str) else "L")
        if inside is None:
            return None
        if isinstance(part, str):
            value = inside.get(part)
        else:
            value = inside[part] if part < len(inside) else None
    found: Value | None = value
    return found


def with_value_at(value: Any, path: Path, new: Value | None) -> Value:
    """Return the value with a new value at that path; None removes it. Other values are shared."""
    part, rest = path[0], path[1:]
    kind = "M" if isinstance(part, str) else "L"
    if value is None or kind not in value:
        raise invalid("The document path provided in the update expression is invalid for update")
    if isinstance(part, str):
        fields = dict(value["M"])
        _put_at(fields, part, with_value_at(fields.get(part), rest, new) if rest else new)
        return {"M": fields}
    items = list(value["L"])
    known = items[part] if part < len(items) else None
    changed = with_value_at(known, rest, new) if rest else new
    if changed is None:
        del items[part : part + 1]
    elif part < len(items):
        items[part] = changed
    else:
        items.append(changed)
    return {"L": items}


def _put_at(fields: dict[str, Any], name: str, value: Value | None) -> None:
    if value is None:
        fields.pop(name, None)
    else:
        fields[name] = value
