"""The list of the studies of this month and last month."""

from __future__ import annotations

from trainyard.client import Yard
from trainyard.client.runs.listing import ListedRun
from trainyard.protocol.ledger.study import STUDY
from trainyard.ui.cache import Cache
from trainyard.ui.pages.page import Page, Seen

MOST = 500


class Studies(Page):
    name, title, parts = "studies", "Studies", ("rows",)

    async def look(self, cache: Cache) -> Seen:
        return {"studies": await cache.fetch("studies", _read_newest)}


def _read_newest(yard: Yard) -> tuple[ListedRun, ...]:
    return yard.list(kind=STUDY, limit=MOST)
