"""Conversion of rows to and from the format of DynamoDB's API."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from trainyard.values import serialization

SMALLEST = 1e-120
"""Numbers closer to 0 are stored as 0, because DynamoDB accepts none below 1e-130."""


class FromDynamoDB(TypeDeserializer):  # type: ignore[misc]  # boto3 has no types
    """A deserializer that returns int or float: no value of a row needs a Decimal."""

    def deserialize(self, value: Mapping[str, Any]) -> Any:
        """Deserialize a value. The common types skip the general code of boto3."""
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
    """A row that unpacks an attribute when it is read."""

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
    packed: dict[str, Any] = PACK.serialize(_exact(serialization.to_json(value)))
    return packed


def pack_row(row: Mapping[str, Any]) -> dict[str, Any]:
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
    return {name: UNPACK.deserialize(value) for name, value in item.items()}
