"""All hosts of the yard, with patrol's verdicts."""

from __future__ import annotations

from trainyard.client import Yard
from trainyard.client.inventory import hosts as yards
from trainyard.client.inventory.hosts import YardHost
from trainyard.ui.cache import Cache
from trainyard.ui.pages.page import Page, Seen

FRESH = 5.0
RUNNING = ("pending", "running")


class Hosts(Page):
    name, title, parts = "hosts", "Hosts", ("rows",)

    async def look(self, cache: Cache) -> Seen:
        found = await cache.fetch("hosts", all_hosts, FRESH)
        here = [host for host in found if host.state not in yards.GONE]
        return {"hosts": here, "per_hour": sum(host.price or 0.0 for host in here if host.state in RUNNING)}


def all_hosts(yard: Yard) -> list[YardHost]:
    """Return the hosts, including terminated ones that EC2 still lists: the page of a run shows its own."""
    return yards.hosts(yard, gone=True)
