"""The cost of a dev host: an hour while it runs, and a month in each state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainyard.protocol.storage import GIB_MONTH, HOURS_A_MONTH, Storage

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment


@dataclass(frozen=True)
class Prices:
    """Dollars a GiB and month in the yard's region, of disks and of images."""

    disk: float
    snapshot: float


@dataclass(frozen=True)
class Cost:
    """The cost in dollars of a dev host."""

    hour: float | None
    """An hour while it runs, with its disk; None if the price is unknown."""
    running: float | None
    """A month while it runs."""
    disk: float
    """A month while it is stopped."""
    image: float
    """The most for a month as an image."""

    def of(self, state: str) -> float | None:
        """Return the cost of a month in a state: an instance's state, or `image`."""
        match state:
            case "image":
                return self.image
            case "stopped":
                return self.disk
            case _:
                return self.running


def read_prices(yard: Deployment) -> Prices:
    """Return the prices that patrol has read, or the built-in prices of the catalog's region."""
    table = yard.session.resource("dynamodb").Table(yard.table)
    row = table.get_item(Key={"pk": "patrol", "sk": "prices"}).get("Item", {})
    known = row.get("storage", {})
    return Prices(*(float(known.get(each, GIB_MONTH[each])) for each in (Storage.DISK, Storage.SNAPSHOT)))


def cost(prices: Prices, price: float | None, gib: int) -> Cost:
    """Return the cost of a host of `price` dollars an hour with a disk of `gib` GiB."""
    disk = gib * prices.disk
    hour = None if price is None else price + disk / HOURS_A_MONTH
    running = None if hour is None else hour * HOURS_A_MONTH
    return Cost(hour, running, disk, gib * prices.snapshot)
