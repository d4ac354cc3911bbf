"""DynamoDB's typed JSON: sizes, normal forms of numbers, and order."""

from __future__ import annotations

import re
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from simulation.aws.endpoint.api import ServiceError

Value = dict[str, Any]
"""One type with one value, e.g. `{"S": "text"}`."""
Item = dict[str, Value]
Row = dict[str, Any]
"""An item as plain Python values."""

EXACT = Context(prec=60)
NORMAL = re.compile(r"0|-?[1-9][0-9]*(\.[0-9]*[1-9])?|-?0\.[0-9]*[1-9]")
MOST_DIGITS = 38
SETS = ("SS", "NS", "BS")
SCALARS = ("S", "B", "BOOL", "NULL")


def invalid(message: str) -> ServiceError:
    return ServiceError("ValidationException", message)


def size_of(item: Item) -> int:
    """Return the size in bytes by AWS's rules: names and values as UTF-8, a byte for two digits of a number."""
    size = 0
    for name, value in item.items():
        size += (len(name) if name.isascii() else len(name.encode())) + _size(value)
    return size


def _size(value: Value) -> int:
    for kind, content in value.items():
        if kind == "S":
            return len(content) if content.isascii() else len(content.encode())
        if kind == "N":
            return (len(content) + 1) // 2 + 1
        if kind == "M":
            return 3 + len(content) + size_of(content)
        if kind == "L":
            return 3 + len(content) + sum(map(_size, content))
        if kind == "B":
            return len(content)
        if kind in SETS:
            return sum(_size({kind[0]: each}) for each in content)
    return 1


def normal_item(item: Item) -> Item:
    """Return the item as DynamoDB returns it (`1.50` becomes 1.5); the same object if nothing changes."""
    found: Item | None = None
    for name, value in item.items():
        changed = normal(value)
        if changed is not value:
            found = found or dict(item)
            found[name] = changed
    return item if found is None else found


def normal(value: Value) -> Value:
    if len(value) != 1:
        raise invalid("Supplied AttributeValue has more than one datatypes set, must contain exactly one")
    [(kind, content)] = value.items()
    if kind in SCALARS:
        return value
    if kind == "N":
        plain = number(content)
        return value if plain == content else {"N": plain}
    if kind == "M":
        inner = normal_item(content)
        return value if inner is content else {"M": inner}
    if kind == "L":
        items = [normal(each) for each in content]
        return value if all(new is old for new, old in zip(items, content, strict=True)) else {"L": items}
    if kind in SETS:
        return _normal_set(kind, content)
    raise invalid(f"Supplied AttributeValue is of the unknown type {kind}")


def _normal_set(kind: str, content: Any) -> Value:
    if not content:
        raise invalid("One or more parameter values were invalid: An string set  may not be empty")
    members = [number(each) for each in content] if kind == "NS" else list(content)
    if len(set(members)) != len(members):
        raise invalid("One or more parameter values were invalid: Input collection contains duplicates")
    return {kind: sorted(members)}


def number(text: str) -> str:
    """Return a number as DynamoDB writes it."""
    if len(text) <= MOST_DIGITS and NORMAL.fullmatch(text):
        return text
    try:
        exact = EXACT.create_decimal(text).normalize(EXACT)
    except InvalidOperation as error:
        raise invalid(f"The parameter cannot be converted to a numeric value: {text}") from error
    if not exact.is_finite():
        raise invalid(f"The parameter cannot be converted to a numeric value: {text}")
    if len(exact.as_tuple().digits) > MOST_DIGITS:
        raise invalid("Attempting to store more than 38 significant digits in a Number")
    return format(exact, "f") if exact else "0"


def same(one: Value, other: Value) -> bool:
    return one == other or normal(one) == normal(other)


def compare(one: Value, other: Value) -> int | None:
    """Return -1, 0 or 1; None for different types, or types without an order."""
    [(kind, left)], [(other_kind, right)] = one.items(), other.items()
    if kind != other_kind or kind not in ("S", "N", "B"):
        return None
    if kind == "N":
        left, right = Decimal(left), Decimal(right)
    return int(left > right) - int(left < right)


def plain(value: Value) -> Any:
    """Return the value as Python has it. Whole numbers become int."""
    [(kind, content)] = value.items()
    if kind == "N":
        return float(content) if "." in content else int(content)
    if kind == "M":
        return {name: plain(each) for name, each in content.items()}
    if kind == "L":
        return [plain(each) for each in content]
    return None if kind == "NULL" else content
