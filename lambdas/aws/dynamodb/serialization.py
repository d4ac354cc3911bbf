"""Rows as DynamoDB's API has them, and back."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from trainyard.values import serialization

SMALLEST = 1e-120
"""Numbers nearer to 0 become 0: DynamoDB takes none below 1e-130."""


class FromDynamoDB(TypeDeserializer):  # type: ignore[misc]  # boto3 has no types
    """Numbers as JSON has them: no value of a row needs a Decimal's digits."""

    def deserialize(self, value: Mapping[str, Any]) -> Any:
        """As boto3 does; at once for what nearly every value is."""
        for kind, content in value.items():
            if kind in ("S", "BOOL"):
                return content
            if kind == "N":
                return self._deserialize_n(content)
            if kind == "M":
                return {name: self.deserialize(inner) for name, inner in content.items()}
            if kind == "L":
                return [self.deserialize(inner) for inner in content]
        return super().deserialize(value)

    def _deserialize_n(self, value: str) -> int | float:
        return int(value) if value.removeprefix("-").isdigit() else float(value)


PACK, UNPACK = TypeSerializer(), FromDynamoDB()


class Packed(Mapping[str, Any]):
    """A row whose attributes are unpacked when somebody reads them."""

    def __init__(self, item: Mapping[str, Any]) -> None:
        self._item = item

    def __getitem__(self, name: str) -> Any:
        return UNPACK.deserialize(self._item[name])

    def __contains__(self, name: object) -> bool:
        return name in self._item

    def __iter__(self) -> Iterator[str]:
        return iter(self._item)

    def __len__(self) -> int:
        return len(self._item)


def key_of(pk: str, sk: str) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def pack(value: Any) -> dict[str, Any]:
    """The value as DynamoDB's API has it."""
    packed: dict[str, Any] = PACK.serialize(_exact(serialization.to_json(value)))
    return packed


def packed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: pack(value) for name, value in row.items()}


def _exact(value: Any) -> Any:
    if isinstance(value, float):
        return Decimal(str(value)) if abs(value) >= SMALLEST else Decimal(0)
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    return value


def unpack(item: Mapping[str, Any]) -> dict[str, Any]:
    """The item as JSON knows it."""
    return {name: UNPACK.deserialize(value) for name, value in item.items()}
