"""The number of instances that can start: capacity of the pool, the vCPU quota, addresses in the subnet."""

from __future__ import annotations

import math
from collections import Counter

from localcloud.base.settings import value_for_pool
from localcloud.services.ec2.capacity.allocation import Grant, Pool, Refusal
from simulation.aws.ec2.supply.catalogue import Catalogue


class Pools:
    """Capacity pools. Capacity is unlimited unless it is set; patterns (`*`, `g6.*`) match several pools."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.quotas: dict[str, float] = {
            code: quota.value for code, quota in catalogue.settings.quotas.items()
        }
        """vCPUs by the code of the quota; may be changed."""
        self.used: Counter[Pool] = Counter()
        self.vcpus: Counter[str] = Counter()
        self._free: dict[str, int] = {}
        self._launched: dict[str, Counter[Pool]] = {}
        self._slots: dict[str, int] = {}

    def leave(self, count: int | None, name: str = "*", zone: str = "*", market: str = "*") -> None:
        """Let each matching pool grant this many more; capacity of ended instances does not return. None: no limit."""
        key = f"{name}/{zone}/{market}"
        self._launched[key] = Counter()
        self._free.pop(key, None)
        if count is not None:
            self._free[key] = count

    def hold(self, count: int | None, name: str = "*", zone: str = "*", market: str = "*") -> None:
        """Let each matching pool hold this many instances at a time. None: no limit."""
        key = f"{name}/{zone}/{market}"
        self._slots.pop(key, None)
        if count is not None:
            self._slots[key] = count

    def grant(self, pool: Pool, wanted: int) -> Grant:
        """Return how many of `wanted` can start. The tightest limit gives the reason."""
        grant = Grant(wanted)
        for limit in (self._quota(pool), self._room(pool)):
            if limit is not None and limit.count < grant.count:
                grant = Grant(max(0, limit.count), limit.refusal)
        return grant

    def free(self, pool: Pool) -> float:
        limit = self._room(pool)
        return math.inf if limit is None else limit.count

    def take(self, pool: Pool) -> None:
        self.used[pool] += 1
        for launched in self._launched.values():
            launched[pool] += 1
        self._count(pool, 1)

    def give_back(self, pool: Pool) -> None:
        self.used[pool] -= 1
        self._count(pool, -1)

    def _count(self, pool: Pool, sign: int) -> None:
        quota = self.catalogue.quota(pool)
        if quota is not None:
            self.vcpus[quota[0]] += sign * self.catalogue.types[pool.instance_type].vcpus

    def _quota(self, pool: Pool) -> Grant | None:
        quota = self.catalogue.quota(pool)
        if quota is None:
            return None
        code = quota[0]
        free = self.quotas[code] - self.vcpus[code]
        return Grant(
            int(free // self.catalogue.types[pool.instance_type].vcpus), _over_quota(pool, self.quotas[code])
        )

    def _room(self, pool: Pool) -> Grant | None:
        if not self._free and not self._slots:
            return None
        parts = (pool.instance_type, pool.zone, pool.market)
        rooms: list[int] = []
        left = value_for_pool({key: (key, count) for key, count in self._free.items()}, *parts)
        if left is not None:
            rooms.append(left[1] - self._launched[left[0]][pool])
        slots = value_for_pool({key: (count,) for key, count in self._slots.items()}, *parts)
        if slots is not None:
            rooms.append(slots[0] - self.used[pool])
        return Grant(max(0, min(rooms)), no_room(pool)) if rooms else None


def no_room(pool: Pool) -> Refusal:
    return Refusal(
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {pool.instance_type} capacity in the Availability Zone you requested "
        f"({pool.zone}). Our system will be working on provisioning additional capacity.",
    )


def _over_quota(pool: Pool, limit: float) -> Refusal:
    if pool.market == "spot":
        return Refusal("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    return Refusal(
        "VcpuLimitExceeded",
        f"You have requested more vCPU capacity than your current vCPU limit of {limit:g} allows for the instance "
        "bucket that the specified instance type belongs to. Please visit "
        "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
    )
