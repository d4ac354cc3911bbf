"""Operators and functions of expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

from simulation.aws.dynamodb.values import Value, compare, invalid, number, same

COMPARISONS: Mapping[str, Callable[[int], bool]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def are_equal(one: Value | None, other: Value | None) -> bool:
    return one is not None and other is not None and same(one, other)


def are_ordered(one: Value | None, other: Value | None, operator: str) -> bool:
    if one is None or other is None:
        return False
    order = compare(one, other)
    return order is not None and COMPARISONS[operator](order)


def _begins(operands: list[Value | None]) -> bool:
    value, prefix = operands
    if value is None or prefix is None:
        return False
    return any(
        kind in value and kind in prefix and value[kind].startswith(prefix[kind]) for kind in ("S", "B")
    )


def _contains(operands: list[Value | None]) -> bool:
    value, part = operands
    if value is None or part is None:
        return False
    [(kind, content)], [(part_kind, wanted)] = value.items(), part.items()
    if kind == "L":
        return any(same(each, part) for each in content)
    return kind in (part_kind, part_kind + "S") and wanted in content


FUNCTIONS: Mapping[str, tuple[Callable[[list[Value | None]], bool], int]] = {
    "attribute_exists": (lambda operands: operands[0] is not None, 1),
    "attribute_not_exists": (lambda operands: operands[0] is None, 1),
    "attribute_type": (lambda operands: (operands[1] or {}).get("S", "") in (operands[0] or {}), 2),
    "begins_with": (_begins, 2),
    "contains": (_contains, 2),
}


def add_numbers(one: Value | None, other: Value | None, sign: str) -> Value:
    if one is None or other is None:
        raise invalid("The provided expression refers to an attribute that does not exist in the item")
    if "N" not in one or "N" not in other:
        raise invalid("An operand in the update expression has an incorrect data type")
    left, right = Decimal(one["N"]), Decimal(other["N"])
    return {"N": number(str(left + right if sign == "+" else left - right))}


def join_lists(one: Value | None, other: Value | None) -> Value:
    if one is None or other is None:
        raise invalid("The provided expression refers to an attribute that does not exist in the item")
    if "L" not in one or "L" not in other:
        raise invalid("An operand in the update expression has an incorrect data type")
    return {"L": [*one["L"], *other["L"]]}
