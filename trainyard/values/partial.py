"""A part of a row: a mapping with some fields of a dataclass, each with the type of the field.

mypy takes the types from the dataclass (scripts/partial_types.py). At run time, any mapping is allowed.
"""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")


class Partial(Mapping[str, Any], Generic[Row]):
    """`Partial[RunRow]` is a TypedDict of the fields of RunRow. Each field may be missing."""
