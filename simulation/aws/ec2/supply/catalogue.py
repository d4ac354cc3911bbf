"""The instance types of EC2: their vCPUs, zones and prices in both markets."""

from __future__ import annotations

from datetime import datetime
from functools import cache

from localcloud.base.settings import Quota, Settings
from localcloud.services.ec2.capacity.allocation import Pool
from trainyard.core.model.instance_types import InstanceType, catalog


@cache
def read_shipped() -> Settings:
    """Return the settings of the local cloud, which share zones, prices and quotas with the simulator."""
    return Settings.load()


class Catalogue:
    """The types and prices of one world, which may change while it runs."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or read_shipped()
        self.zones = dict(self.settings.zones)
        self.types = catalog().types
        self.not_offered: set[tuple[str, str]] = set()
        """Pairs (type, zone) without an offering."""
        self._changes: dict[tuple[str, str], list[tuple[datetime, float]]] = {}
        self._quotas: dict[tuple[str, str], tuple[str, Quota] | None] = {}

    def type(self, name: str) -> InstanceType | None:
        return self.types.get(name)

    def is_offered(self, name: str, zone: str) -> bool:
        return name in self.types and zone in self.zones and (name, zone) not in self.not_offered

    def set_spot_price(self, name: str, zone: str, dollars: float, at: datetime) -> None:
        self._changes.setdefault((name, zone), []).append((at, dollars))

    def spot_price(self, name: str, zone: str) -> float | None:
        changes = self._changes.get((name, zone))
        return changes[-1][1] if changes else self.settings.spot_price(name, zone)

    def spot_changes(self, name: str, zone: str, beginning: datetime) -> list[tuple[datetime, float]]:
        """Return every price so far, oldest first; the first one applies since the beginning."""
        first = self.settings.spot_price(name, zone)
        return [(beginning, first), *self._changes.get((name, zone), [])] if first is not None else []

    def price(self, pool: Pool) -> float | None:
        """Return the current price in dollars per hour."""
        if pool.market == "spot":
            return self.spot_price(pool.instance_type, pool.zone)
        return (
            self.settings.on_demand_price(pool.instance_type)
            or self.types[pool.instance_type].on_demand_price
        )

    def quota(self, pool: Pool) -> tuple[str, Quota] | None:
        """Return the code and settings of the vCPU quota for this capacity pool."""
        key = (pool.instance_type, pool.market)
        if key not in self._quotas:
            self._quotas[key] = self.settings.quota_of(*key)
        return self._quotas[key]
