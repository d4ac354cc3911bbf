"""Keys of rows, and ranges of sort keys."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from simulation.aws.dynamodb import expressions as expressions
from simulation.aws.dynamodb.tables import Key
from simulation.aws.dynamodb.values import Item, Value, invalid
from simulation.aws.endpoint.parameters import LAST

MOST_PK_BYTES, MOST_SK_BYTES = 2048, 1024


def key_of(key: Item) -> Key:
    if set(key) != {"pk", "sk"}:
        raise invalid("The provided key element does not match the schema")
    return key_in(key)


def key_in(item: Item) -> Key:
    for name, most in (("pk", MOST_PK_BYTES), ("sk", MOST_SK_BYTES)):
        if name not in item:
            raise invalid(f"One or more parameter values were invalid: Missing the key {name} in the item")
        if not isinstance(item[name].get("S"), str):
            raise invalid(
                f"One or more parameter values were invalid: Type mismatch for key {name} expected: S"
            )
        if not item[name]["S"]:
            raise invalid(
                "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain "
                f"an empty string value. Key: {name}"
            )
        if len(item[name]["S"].encode()) > most:
            raise invalid(
                f"One or more parameter values were invalid: Size of {name} has exceeded the maximum size limit of "
                f"{most} bytes"
            )
    return item["pk"]["S"], item["sk"]["S"]


def read_string(value: Value) -> str:
    found = value.get("S")
    if not isinstance(found, str):
        raise invalid(
            "One or more parameter values were invalid: Condition parameter type does not match schema type"
        )
    return found


def range_of(sks: list[str], operator: str, edges: Sequence[str]) -> tuple[int, int]:
    """Return the first index of the matching sks, and the index after the last."""
    if not operator:
        return 0, len(sks)
    edge = edges[0]
    if operator == "BETWEEN":
        return bisect_left(sks, edge), bisect_right(sks, edges[1])
    if operator == "begins_with":
        return bisect_left(sks, edge), bisect_right(sks, edge + LAST)
    left, right = bisect_left(sks, edge), bisect_right(sks, edge)
    return {"<": (0, left), "<=": (0, right), "=": (left, right), ">=": (left, len(sks))}.get(
        operator, (right, len(sks))
    )


def range_after(sks: list[str], first: int, last: int, pk: str, start: Key, forward: bool) -> tuple[int, int]:
    """Return the part of the range after that key."""
    if start[0] != pk:
        raise invalid(
            "The provided starting key is invalid: The provided starting key is outside query boundaries"
        )
    if forward:
        return max(first, bisect_right(sks, start[1])), last
    return first, min(last, bisect_left(sks, start[1]))
