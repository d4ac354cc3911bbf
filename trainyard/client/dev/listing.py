"""The dev hosts of a yard with their costs, including dev hosts that are kept as images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainyard.client.dev import hosts, prices

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment


@dataclass(frozen=True)
class Listed:
    """A dev host, or the image that it is kept as."""

    name: str
    owner: str
    state: str
    """The state of the instance, or `image`."""
    place: str
    """The id of the instance or of the image."""
    type: str
    zone: str
    market: str
    per_hour: float | None
    """Dollars an hour now; None if the price is unknown."""
    per_month: float | None
    """Dollars a month in this state; None if the price is unknown."""
    images: tuple[str, ...] = ()
    """Images with older files, besides the host or the image."""
    images_per_month: float = 0.0
    """Dollars a month of all these images."""


def list_dev_hosts(yard: Deployment) -> list[Listed]:
    """Return the dev hosts by name."""
    region, made = prices.read_prices(yard), hosts.images(yard)
    found = []
    for host in hosts.hosts(yard):
        cost = prices.cost(region, host.price, host.disk_gib or 0)
        mine = [image for image in made if image.name == host.name]
        found.append(
            Listed(
                host.name,
                host.owner,
                host.state,
                host.instance,
                host.type,
                host.zone,
                host.market,
                cost.hour if host.state in ("pending", "running") else 0.0,
                cost.of(host.state),
                tuple(image.image for image in mine),
                sum(image.gib for image in mine) * region.snapshot,
            )
        )
    there = {host.name for host in found}
    alone: dict[str, list[hosts.DevImage]] = {}
    for image in made:
        if image.name not in there:
            alone.setdefault(image.name, []).append(image)
    for name, (newest, *older) in alone.items():
        month = newest.gib * region.snapshot
        found.append(
            Listed(
                name,
                newest.owner,
                "image" if newest.state == "available" else f"image {newest.state}",
                newest.image,
                newest.type,
                "",
                "",
                0.0,
                month,
                tuple(image.image for image in older),
                sum(image.gib for image in older) * region.snapshot,
            )
        )
    return sorted(found, key=lambda each: each.name)
