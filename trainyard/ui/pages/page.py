"""The base of all pages: a folder of templates, and the values that their changing parts show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from trainyard.client import YardError
from trainyard.ui.cache import Cache

Seen = dict[str, Any]
"""Values for the templates, by name."""


@dataclass(frozen=True)
class PageEvent:
    """Data for a script of the page."""

    event: str
    data: Mapping[str, Any]
    id: str = ""
    """The position of the page in a log, which the browser sends back when it reconnects."""


class Page:
    """A page of the yard."""

    name: ClassVar[str]
    """The folder of its templates: `page.html`, and one template for each of its `parts`."""
    title: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]

    @property
    def query(self) -> Mapping[str, str | tuple[str, ...]]:
        """Return the query of the page's address."""
        return {}

    async def look(self, cache: Cache) -> Seen:
        """Return the current values. Raises YardError."""
        raise NotImplementedError

    def list_events(self, seen: Seen, sent: dict[str, Any], last: str) -> Iterator[PageEvent]:
        """Yield the new data since the last call, and record them in `sent`.

        `last` is the ID of the last event before a reconnection.
        """
        yield from ()


async def read_values(page: Page, cache: Cache) -> Seen:
    """Return the values, or the error as `troubles`."""
    try:
        seen = await page.look(cache)
    except YardError as error:
        return {"troubles": [error]}
    return {"troubles": [], **seen}
