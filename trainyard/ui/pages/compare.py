"""Runs side by side: the differences between their jobs, their results, and their curves in one plot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trainyard.client import Yard
from trainyard.client.comparison import Comparison, side_of
from trainyard.ui.cache import Cache
from trainyard.ui.pages.page import Page, PageEvent, Seen
from trainyard.ui.pages.run import columns, find_run

FRESH = 10.0
MOST = 8
"""Runs on one page."""


@dataclass(frozen=True)
class Compare(Page):
    """The runs of these IDs."""

    runs: tuple[str, ...]

    name, title = "compare", "Compare"
    parts = ("table",)

    @property
    def query(self) -> dict[str, str]:
        return {"runs": ",".join(self.runs)}

    async def look(self, cache: Cache) -> Seen:
        return {"comparison": await cache.fetch(("compare", self.runs), self._comparison, FRESH)}

    def list_events(self, seen: Seen, sent: dict[str, Any], last: str) -> Iterator[PageEvent]:
        comparison: Comparison | None = seen.get("comparison")
        if comparison is None:
            return
        charts = {name: comparison.samples(name) for name in comparison.metrics}
        if sent.get("charts") != charts:
            sent["charts"] = charts
            drawn = [
                {
                    "title": name,
                    "curves": [{"label": run, **columns(points)} for run, points in curves.items()],
                }
                for name, curves in charts.items()
            ]
            yield PageEvent("compared", {"charts": drawn})

    def _comparison(self, yard: Yard) -> Comparison:
        return Comparison.of([side_of(find_run(yard, run)) for run in self.runs])
