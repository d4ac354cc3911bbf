"""The summary.json of a bake. A module of its own, because only Conclude needs it."""

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
"""Files in a bake's folder, by their key in the summary."""


def summarise(
    ended: EndedRun,
    *,
    kind: str,
    image: str | None,
    objects: Collection[str],
    results: Mapping[str, Any],
    retirement: str | None,
) -> BakeSummary:
    """Return the summary.json of a bake: the summary of its builder, and the image with its tests."""
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
        "where": summary.locations(ended, objects, LEFT),
    }
