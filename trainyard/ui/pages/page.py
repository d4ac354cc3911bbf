"""What every page is: a folder of templates, the parts of it that change, and what these show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from trainyard.client import YardError
from trainyard.ui.cache import Cache

Seen = dict[str, Any]
"""What the templates know by name."""


@dataclass(frozen=True)
class News:
    """What a script of the page takes, rather than a part of its text. `id` says how far the page is with it."""

    event: str
    data: Mapping[str, Any]
    id: str = ""


class Page:
    """`name` is the folder of its templates: `page.html`, and one for each of its `parts`."""

    name: ClassVar[str]
    title: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]

    @property
    def query(self) -> dict[str, str]:
        """What its address has behind the path."""
        return {}

    async def look(self, cache: Cache) -> Seen:
        """What there is to see now. Raises YardError where that is nothing."""
        raise NotImplementedError

    def news(self, seen: Seen, told: dict[str, Any], last: str) -> Iterator[News]:
        """What is new for a page that has been told so far what is in `told`, which this writes; `last` is the id that
        it had before a break."""
        yield from ()


async def looked(page: Page, cache: Cache) -> Seen:
    """What there is to see, or what is in the way as `troubles`."""
    try:
        seen = await page.look(cache)
    except YardError as error:
        return {"troubles": [error]}
    return {"troubles": [], **seen}
