"""The training runs and studies of this month and last month, by a view of the list. Trials are listed below their
study if the list is grouped by study. Bakes and snapshots are on Images, dev hosts on Hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from trainyard.client import Yard
from trainyard.client.runs.listing import ListedRun
from trainyard.protocol.ledger.study import STUDY
from trainyard.ui.cache import Cache
from trainyard.ui.columns import DEFAULT, GROUPS, LABEL, choices_in, column_of
from trainyard.ui.pages.page import Page, Seen
from trainyard.ui.view import FEW_ROWS, View, arrange

NEWEST = 500
"""Runs that are read at each update."""
MOST = 10_000
"""Runs in the list."""
ALL_FRESH = 300.0
"""Seconds for runs that are older than the newest ones. Reading them costs a request per MB."""
PATIENCE = 0.3
"""Seconds that a page waits for them at first."""
CACHES = 8


@dataclass(frozen=True)
class Runs(Page):
    """The list of runs."""

    view: View = field(default_factory=View)

    name, title, parts = "runs", "Runs", ("grouping", "rows", "choices")

    @property
    def query(self) -> Mapping[str, str | tuple[str, ...]]:
        return self.view.query

    async def look(self, cache: Cache) -> Seen:
        newest = await cache.fetch("runs", _read_newest)
        runs, reads_on = newest, False
        if len(newest) >= NEWEST:
            older = await cache.glimpse("all runs", _read_all, ALL_FRESH, PATIENCE)
            runs, reads_on = known_runs(cache).merge(older or (), newest), older is None
        choices = choices_in(runs, (*self.view.columns, self.view.group))
        by = {"": "No groups", **{name: f"By {name}" for name in GROUPS}}
        return {
            "view": self.view,
            "arranged": arrange(runs, self.view),
            "choices": choices,
            "groupings": by | {f"{LABEL}{name}": f"By label {name}" for name in choices.labels},
            "grouped_by": column_of(self.view.group),
            "is_default": self.view.columns == DEFAULT,
            "few_rows": FEW_ROWS,
            "reads_on": reads_on,
            "is_cut": len(runs) >= MOST,
        }


@dataclass
class KnownRuns:
    """All runs that were read. Each update reads only the newest ones again."""

    _older: tuple[ListedRun, ...] = ()
    _by_id: dict[str, ListedRun] = field(default_factory=dict)

    def merge(self, older: tuple[ListedRun, ...], newest: tuple[ListedRun, ...]) -> tuple[ListedRun, ...]:
        """Return the runs, the newest first. A run that has left the newest ones stays until all runs are read."""
        if older is not self._older:
            self._older, self._by_id = older, {run.id: run for run in older}
        self._by_id |= {run.id: run for run in newest}
        ids = {run.id for run in newest}
        rest = [run for run in self._by_id.values() if run.id not in ids]
        rest.sort(key=lambda run: run.created, reverse=True)
        return (*newest, *rest)[:MOST]


@lru_cache(CACHES)
def known_runs(cache: Cache) -> KnownRuns:
    """Return the runs that all viewers share."""
    return KnownRuns()


def _read_newest(yard: Yard) -> tuple[ListedRun, ...]:
    return yard.list(kind=("train", STUDY), limit=NEWEST)


def _read_all(yard: Yard) -> tuple[ListedRun, ...]:
    return yard.list(kind=("train", STUDY), limit=MOST)
