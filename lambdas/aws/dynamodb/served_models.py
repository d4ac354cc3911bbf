"""The rows that a prediction needs: a model with its aliases, and one version.

This module imports no other part of the ledger, because that would double the cold start of the function.
"""

from typing import Any

from lambdas.aws.calls import list_items
from lambdas.aws.clients import client
from lambdas.aws.dynamodb.serialization import key_of, unpack
from trainyard.protocol.ledger import models
from trainyard.protocol.ledger.models import ModelRow, VersionRow
from trainyard.values import serialization


class ServedModels:
    def __init__(self, table: str) -> None:
        self._table, self._dynamodb = table, client("dynamodb")

    def model(self, name: str) -> ModelRow | None:
        row = self._get(models.partition(name), models.MODEL)
        return None if row is None else serialization.from_json(ModelRow, row)

    def version(self, model: str, number: int) -> VersionRow | None:
        row = self._get(models.partition(model), models.version_key(number))
        return None if row is None else serialization.from_json(VersionRow, row)

    def versions(self, model: str) -> list[VersionRow]:
        """Return all versions of a model, the oldest first."""
        condition = "pk = :pk AND begins_with(sk, :sk)"
        rows = self._query(condition, pk=models.partition(model), sk=models.VERSION_PREFIX)
        return [serialization.from_json(VersionRow, row) for row in rows]

    def names(self) -> list[str]:
        """Return the names of all models."""
        return [str(row["sk"]) for row in self._query("pk = :pk", pk=models.MODELS)]

    def _get(self, pk: str, sk: str) -> dict[str, Any] | None:
        answer = self._dynamodb.get_item(TableName=self._table, Key=key_of(pk, sk), ConsistentRead=True)
        return unpack(answer["Item"]) if "Item" in answer else None

    def _query(self, condition: str, **values: str) -> list[dict[str, Any]]:
        items = list_items(
            "dynamodb",
            "query",
            "Items",
            TableName=self._table,
            KeyConditionExpression=condition,
            ExpressionAttributeValues={f":{name}": {"S": value} for name, value in values.items()},
            ConsistentRead=True,
        )
        return [unpack(item) for item in items]
