"""Limits of launches: capacity of the pool, quota, and free addresses of the subnet."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

from localcloud.base.settings import Settings, value_for_pool
from localcloud.services.ec2.capacity import initialization
from localcloud.services.ec2.capacity.allocation import Grant, Pool, Refusal
from localcloud.services.ec2.store.records import LIVE, backend, instances, now


@functools.cache
def vcpus(instance_type: str) -> int:
    """Return the vCPUs of a type in the catalogue."""
    return int(INSTANCE_TYPES[instance_type]["VCpuInfo"]["DefaultVCpus"])


@functools.cache
def offered_in(region: str, instance_type: str) -> frozenset[str]:
    """Return the zones that offer the type."""
    offerings = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
    return frozenset(o["Location"] for o in offerings if o["InstanceType"] == instance_type)


@dataclass(frozen=True)
class Capacity:
    """The capacity of all pools: from the settings, or as changed at runtime."""

    settings: Settings
    changed: dict[str, int | None] = field(default_factory=dict)

    def set(self, pool: str, slots: int | None) -> None:
        """Set the slots of pools ("type/zone/market", wildcards allowed). None means unlimited."""
        self.changed[pool] = slots

    def unset(self, pool: str) -> bool:
        """Remove a runtime change. Return False if this key had none."""
        return self.changed.pop(pool, self) is not self

    def slots(self, pool: Pool) -> int | None:
        """Return the total slots of a pool, or None if unlimited. Runtime changes override the settings."""
        parts = (pool.instance_type, pool.zone, pool.market)
        wrapped = {key: (slots,) for key, slots in self.changed.items()}
        changed = value_for_pool(wrapped, *parts)
        return changed[0] if changed is not None else value_for_pool(self.settings.capacity, *parts)

    def grant(
        self, pool: Pool, wanted: int, subnet_id: str | None = None, initialization_rate: int = 0
    ) -> Grant:
        """Return how many of `wanted` can start now, and the reason of the tightest limit."""
        grant = Grant(wanted)
        disks = initialization.grant(_initialization_rates(), initialization_rate)
        for limit in (self._quota(pool), self._slots_left(pool), self._addresses(subnet_id), disks):
            if limit is not None and limit.count < grant.count:
                grant = Grant(max(0, limit.count), limit.refusal)
        return grant

    def free(self, pool: Pool) -> float:
        """Return the free slots of a pool; infinite if unlimited."""
        limit = self._slots_left(pool)
        return float("inf") if limit is None else limit.count

    def _quota(self, pool: Pool) -> Grant | None:
        quota = self.settings.quota_of(pool.instance_type, pool.market)
        if quota is None:
            return None
        code, entry = quota
        used = sum(
            vcpus(i.instance_type)
            for i in instances()
            if i.state in LIVE and entry.covers(i.instance_type, market_of(i))
        )
        if pool.market == "spot":
            refusal = Refusal("MaxSpotInstanceCountExceeded", f"Max spot instance count exceeded ({code})")
        else:
            refusal = Refusal(
                "VcpuLimitExceeded",
                f"You have requested more vCPU capacity than your current vCPU limit of {entry.value:g} allows for the "
                "instance bucket that the specified instance type belongs to. Please visit "
                "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
            )
        return Grant(int((entry.value - used) // vcpus(pool.instance_type)), refusal)

    def _slots_left(self, pool: Pool) -> Grant | None:
        slots = self.slots(pool)
        if slots is None:
            return None
        used = sum(i.state in LIVE and pool_of(i) == pool for i in instances())
        return Grant(
            max(0, slots - used),
            Refusal(
                "InsufficientInstanceCapacity",
                f"We currently do not have sufficient {pool.instance_type} capacity in the Availability Zone you "
                f"requested ({pool.zone}). Our system will be working on provisioning additional capacity.",
            ),
        )

    def _addresses(self, subnet_id: str | None) -> Grant | None:
        if subnet_id is None:
            return None
        free = backend().get_subnet(subnet_id).available_ip_address_count
        return Grant(
            int(free),
            Refusal(
                "InsufficientFreeAddressesInSubnet",
                f"There are not enough free addresses in subnet '{subnet_id}' to satisfy the requested number of "
                "instances.",
            ),
        )


def _initialization_rates() -> list[int]:
    """Return the rates in MiB/s of all volumes in initialization."""
    found = []
    for volume in backend().volumes.values():
        rate = int(getattr(volume, "volume_initialization_rate", None) or 0)
        if initialization.is_initializing(
            gib=int(volume.size), rate=rate, made=volume.create_time.replace(tzinfo=UTC), now=now()
        ):
            found.append(rate)
    return found


def market_of(instance: Any) -> str:
    return instance.lifecycle or "on-demand"


def pool_of(instance: Any) -> Pool:
    """Return the capacity pool that the instance occupies."""
    return Pool(instance.instance_type, instance.placement.zone, market_of(instance))
