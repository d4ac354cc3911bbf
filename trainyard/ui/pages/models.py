"""The list of the models, and the page of one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trainyard.client import Yard
from trainyard.client.registry import list_models
from trainyard.protocol.ledger.models import DEFAULT, ModelRows, VersionState
from trainyard.ui.cache import Cache
from trainyard.ui.pages.page import Page, Seen

FRESH = 5.0
MOST_MOVES = 20
SIGNS = {
    VersionState.MAKING: "running",
    VersionState.READY: "succeeded",
    VersionState.REFUSED: "failed",
    VersionState.RETIRED: "stopped",
}
"""The color and the sign of a version, as runs have them."""


class Models(Page):
    name, title, parts = "models", "Models", ("rows",)

    async def look(self, cache: Cache) -> Seen:
        return {"models": await cache.fetch("models", _read_all, FRESH), "default": DEFAULT}


@dataclass(frozen=True)
class ModelPage(Page):
    """A model with its versions and the moves of its aliases."""

    model: str
    name: ClassVar[str] = "model"
    title: ClassVar[str] = "Model"
    parts: ClassVar[tuple[str, ...]] = ("versions", "moves")

    async def look(self, cache: Cache) -> Seen:
        rows = await cache.fetch(("model", self.model), lambda yard: yard.model(self.model).rows, FRESH)
        return {"rows": rows, "signs": SIGNS, "moves": rows.moves[: -MOST_MOVES - 1 : -1]}


def _read_all(yard: Yard) -> tuple[ModelRows, ...]:
    return tuple(yard.model(each.name).rows for each in list_models(yard))
