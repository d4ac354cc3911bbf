"""The rows that a prediction needs: a model with its aliases, and one version."""

from lambdas.aws.dynamodb.ledger import Table
from trainyard.protocol.ledger import models
from trainyard.protocol.ledger.models import ModelRow, VersionRow
from trainyard.values import serialization


class ServedModels(Table):
    def model(self, name: str) -> ModelRow | None:
        row = self._get(models.partition(name), models.MODEL)
        return None if row is None else serialization.from_json(ModelRow, row)

    def version(self, model: str, number: int) -> VersionRow | None:
        row = self._get(models.partition(model), models.version_key(number))
        return None if row is None else serialization.from_json(VersionRow, row)

    def versions(self, model: str) -> list[VersionRow]:
        """Return all versions of a model, the oldest first."""
        values = {"model": models.partition(model), "version": models.version_key(0).rstrip("0")}
        rows = self._query("pk = :model AND begins_with(sk, :version)", values, ConsistentRead=True)
        return [serialization.from_json(VersionRow, row) for row in rows]

    def names(self) -> list[str]:
        """Return the names of all models."""
        rows = self._query("pk = :models", {"models": models.MODELS}, ConsistentRead=True)
        return [str(row["sk"]) for row in rows]
