"""The list of the models, and the page of one model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from trainyard.client import Yard
from trainyard.client.registry import list_models, read_figures
from trainyard.core.model.prediction_metrics import Key
from trainyard.protocol.ledger.models import CANARY, DEFAULT, SHADOW, Canary, ModelRows, VersionState
from trainyard.ui.cache import Cache
from trainyard.ui.pages.page import Page, Seen

FRESH = 5.0
FRESH_FIGURES = 30.0
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
    parts: ClassVar[tuple[str, ...]] = ("tried", "versions", "moves")

    async def look(self, cache: Cache) -> Seen:
        rows = await cache.fetch(("model", self.model), lambda yard: yard.model(self.model).rows, FRESH)
        asked = [key for tried in _find_tried(rows) for key in (tried.champion, tried.own)]
        figures = await cache.fetch(
            ("figures", self.model, *asked),
            lambda yard: read_figures(yard, asked, datetime.now(UTC)),
            FRESH_FIGURES,
        )
        return {
            "rows": rows,
            "signs": SIGNS,
            "moves": rows.moves[: -MOST_MOVES - 1 : -1],
            "tried": _find_tried(rows),
            "figures": figures,
        }


@dataclass(frozen=True)
class Tried:
    """A canary or a shadow, with the keys of the figures to compare."""

    word: str
    canary: Canary
    champion: Key
    own: Key


def _find_tried(rows: ModelRows) -> list[Tried]:
    """Return the open canary and the open shadow of a model."""
    found = ((CANARY, rows.row.canary), (SHADOW, rows.row.shadow))
    model, default = rows.row.name, rows.row.aliases.get(DEFAULT, 0)
    return [
        Tried(word, each, (model, default, each.started), (model, each.version, each.started))
        for word, each in found
        if each
    ]


def _read_all(yard: Yard) -> tuple[ModelRows, ...]:
    return tuple(yard.model(each.name).rows for each in list_models(yard))
