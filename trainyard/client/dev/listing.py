"""All dev hosts of a yard, those also that are images now, with what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainyard.client.dev import hosts, prices

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment


@dataclass(frozen=True)
class Listed:
    """`state` is the instance's, or `image`; `place` the instance or the image. Dollars `per_hour` now, and `per_month`
    if it stays as it is; None where nobody knows the price. `images` beside a host: of older files, each of which costs
    `images_per_month` in all."""

    name: str
    owner: str
    state: str
    place: str
    type: str
    zone: str
    market: str
    per_hour: float | None
    per_month: float | None
    images: tuple[str, ...] = ()
    images_per_month: float = 0.0


def of(yard: Deployment) -> list[Listed]:
    """By name."""
    region, made = prices.of_region(yard), hosts.images(yard)
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
