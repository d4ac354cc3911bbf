"""The family tree of the images, and the bakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainyard.client import Yard
from trainyard.client.inventory import images as yards
from trainyard.client.inventory.images import Image
from trainyard.client.runs.listing import ListedRun
from trainyard.ui.cache import Cache
from trainyard.ui.pages.page import Page, Seen

FRESH = 10.0
MOST_BAKES = 8


@dataclass(frozen=True)
class Branch:
    """An image with its descendants, newest first."""

    image: Image
    children: tuple[Branch, ...]


class Images(Page):
    name, title, parts = "images", "Images", ("tree", "bakes")

    async def look(self, cache: Cache) -> Seen:
        found = await cache.fetch("images", yards.list_images, FRESH)
        bakes = await cache.fetch("bakes", _bakes)
        return {"images": found, "tree": tree_of(found), "bakes": bakes}


def _bakes(yard: Yard) -> tuple[ListedRun, ...]:
    found = (*yard.list(kind="bake", limit=MOST_BAKES), *yard.list(kind="snapshot", limit=MOST_BAKES))
    return tuple(sorted(found, key=lambda run: run.created, reverse=True)[:MOST_BAKES])


def tree_of(images: Sequence[Image]) -> tuple[Branch, ...]:
    """Return the images by parents. Images whose parent is not in the yard are roots, also one that names itself."""
    own = {image.id for image in images}
    roots = [image for image in images if image.parent == image.id or image.parent not in own]
    return tuple(_branch(root, images) for root in roots)


def _branch(image: Image, images: Sequence[Image]) -> Branch:
    children = [each for each in images if each.parent == image.id and each.id != image.id]
    return Branch(image, tuple(_branch(child, images) for child in children))
