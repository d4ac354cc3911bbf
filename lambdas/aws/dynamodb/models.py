"""The rows of models in the ledger: models, their versions, and the moves of their aliases."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lambdas.aws.dynamodb.ledger import Table
from lambdas.aws.dynamodb.write import Write
from lambdas.core.models.registry import Move, Wait
from trainyard.protocol.ledger.canaries import CANARIES, MODEL_PREFIX
from trainyard.protocol.ledger.models import (
    CANARY,
    MODEL,
    MODELS,
    MOVED_PREFIX,
    SHADOW,
    ListedModel,
    ModelRow,
    ModelRows,
    MoveRow,
    ServedRow,
    VersionRow,
    VersionState,
    partition,
    served_key,
    version_key,
)
from trainyard.values import serialization


class Models(Table):
    def read(self, model: str) -> ModelRows | None:
        """Return the model with its versions and moves; None if the ledger has no such model."""
        return ModelRows.of(self._query("pk = :model", {"model": partition(model)}, ConsistentRead=True))

    def exists(self, model: str) -> bool:
        return self._get(partition(model), MODEL) is not None

    def list_names(self) -> tuple[str, ...]:
        """Return the names of all models."""
        return tuple(str(row["sk"]) for row in self._query("pk = :models", {"models": MODELS}))


def new_model_rows(row: ModelRow) -> list[Write]:
    """Write a new model. Raises AlreadyWrittenError if the name is taken."""
    listed = ListedModel(name=row.name, owner=row.owner, created=row.created)
    return [
        Write(partition(row.name), MODEL, _known(row), put=True, unless="pk"),
        Write(MODELS, row.name, _known(listed), put=True),
    ]


def next_model_row(row: ModelRow) -> Write:
    """Write the next row of a model. Raises AlreadyWrittenError if another request has written since it was read."""
    ended = tuple(name for name in (CANARY, SHADOW) if getattr(row, name) is None)
    return Write(partition(row.name), MODEL, _known(row), without=ended, same=("version", row.version - 1))


def new_version_row(model: str, row: VersionRow) -> Write:
    """Write a new version. Raises AlreadyWrittenError if its number is taken."""
    return Write(partition(model), version_key(row.number), _known(row), put=True, unless="pk")


def version_row(
    model: str, number: int, values: Mapping[str, Any], *, was: VersionState | None = None
) -> Write:
    """Write values of a version. Raises AlreadyWrittenError if it does not exist, or is not in the state `was`."""
    same = None if was is None else ("state", was.value)
    return Write(partition(model), version_key(number), values, only="state", same=same)


def served_row(model: str, row: ServedRow) -> Write:
    """Write the next start of a host. Raises AlreadyWrittenError if another request was first."""
    if row.start == 1:
        return Write(partition(model), served_key(row.number), _known(row), put=True, unless="pk")
    return Write(partition(model), served_key(row.number), _known(row), same=("start", row.start - 1))


def move_rows(made: Move) -> list[Write]:
    """Move an alias and record the move. Raises AlreadyWrittenError if another request has written the model."""
    at = serialization.timestamp(made.move.at)
    record = Write(partition(made.row.name), f"{MOVED_PREFIX}{at}", _known(made.move), put=True, unless="pk")
    return [next_model_row(made.row), record]


def changes(made: Move | Wait) -> list[Write]:
    """Write the model's next row, and the record of a move."""
    return move_rows(made) if isinstance(made, Move) else [next_model_row(made.row)]


def canary_row(model: str, started: datetime) -> Write:
    """List a model whose canary or shadow is open. Patrol reads the list in each pass."""
    return Write(*CANARIES, {f"{MODEL_PREFIX}{model}": serialization.timestamp(started)})


def no_canary_row(model: str) -> Write:
    """Remove a model from this list. The row keeps its key."""
    return Write(*CANARIES, {"kind": "canaries"}, without=(f"{MODEL_PREFIX}{model}",))


def _known(row: ModelRow | VersionRow | MoveRow | ServedRow | ListedModel) -> dict[str, Any]:
    """Return the attributes of a row that have a value."""
    return {name: value for name, value in serialization.to_json(row).items() if value is not None}
