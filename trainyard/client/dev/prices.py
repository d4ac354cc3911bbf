"""What a dev host costs: an hour while it runs, and a month for what it keeps."""

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
    """Dollars: `hour` while it runs, its disk included; None where nobody knows the price. A month, if it stays all of
    it: `running`, `disk` of one that is stopped, `image` of one that has become an image (at most: of the whole disk).
    """

    hour: float | None
    running: float | None
    disk: float
    image: float

    def of(self, state: str) -> float | None:
        """A month in that state: an instance's, or `image`."""
        match state:
            case "image":
                return self.image
            case "stopped":
                return self.disk
            case _:
                return self.running


def of_region(yard: Deployment) -> Prices:
    """As patrol has read them; where it has not, those of the catalogue's region."""
    table = yard.session.resource("dynamodb").Table(yard.table)
    row = table.get_item(Key={"pk": "patrol", "sk": "prices"}).get("Item", {})
    known = row.get("storage", {})
    return Prices(*(float(known.get(each, GIB_MONTH[each])) for each in (Storage.DISK, Storage.SNAPSHOT)))


def cost(prices: Prices, price: float | None, gib: int) -> Cost:
    """Of a host of `price` dollars an hour with a disk of so many GiB."""
    disk = gib * prices.disk
    hour = None if price is None else price + disk / HOURS_A_MONTH
    running = None if hour is None else hour * HOURS_A_MONTH
    return Cost(hour, running, disk, gib * prices.snapshot)
