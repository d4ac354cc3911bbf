"""summary.json of a bake. Apart from bake.py because only Conclude writes it."""

from collections.abc import Collection, Mapping
from typing import Any

from lambdas.core.images.bake import VERSIONS
from lambdas.core.run.conclusion import summary
from lambdas.core.run.conclusion.summary import EndedRun
from trainyard.protocol.summary import BakeSummary

LEFT = {
    "recipe": "recipe.json",
    "log": "logs/builder/",
    "tests": "tests.json",
    "sbom": "sbom.json",
    "plan": "plan.json",
}
"""What a bake leaves in its folder, by what the summary calls it."""


def summarise(
    ended: EndedRun,
    *,
    kind: str,
    image: str | None,
    objects: Collection[str],
    results: Mapping[str, Any],
    retirement: str | None,
) -> BakeSummary:
    """summary.json of a bake: of a run's summary what a builder has, and the image with its tests."""
    whole, row = summary.summarise(ended, objects=objects), ended.row
    recipe, published = (row.recipe, row.published) if row else (None, None)
    return {
        **summary.head(ended),
        "restarts": whole["restarts"],
        "cost": whole["cost"],
        "hosts": whole["hosts"],
        "attempts": whole["attempts"],
        "kind": kind,
        "recipe": recipe["name"] if recipe else None,
        "hash": recipe["hash"] if recipe else None,
        "base": recipe["base"] if recipe else None,
        "image": published.image if published else image,
        "before": published.before if published else None,
        "tests": list(results.get("tests", ())),
        "versions": {what: results.get(what) for what in VERSIONS},
        "retirement": retirement,
        "where": summary.places(ended, objects, LEFT),
    }
