"""The training runs and studies of this month and last month. The page of a study lists its trials. Bakes and snapshots
are on Images, dev hosts on Hosts."""

from __future__ import annotations

from trainyard.client import Yard
from trainyard.client.runs.listing import ListedRun
from trainyard.protocol.ledger.study import STUDY
from trainyard.ui.cache import Cache
from trainyard.ui.pages.page import Page, Seen

MOST = 500


class Runs(Page):
    name, title, parts = "runs", "Runs", ("rows",)

    async def look(self, cache: Cache) -> Seen:
        return {"runs": await cache.fetch("runs", _newest)}


def _newest(yard: Yard) -> tuple[ListedRun, ...]:
    return yard.list(kind=("train", STUDY), limit=MOST, wanted=lambda run: run.study is None)


def name_state(run: ListedRun) -> str:
    """Return the outcome, or `waiting` or `running`: the word for the color and the filter."""
    return run.outcome or ("waiting" if run.waiting else "running")
