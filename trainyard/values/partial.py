"""A part of a row: a mapping with some of the fields of a dataclass, each of the field's own type.

mypy takes the types from the dataclass (scripts/partial_types.py). At run time it is any mapping."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")


class Partial(Mapping[str, Any], Generic[Row]):
    """`Partial[RunRow]` is a TypedDict of the fields of RunRow, of which each may be missing."""
