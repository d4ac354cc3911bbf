"""The GPU instance types Trainyard knows: what they hold, what they cost on demand, which quota they use.

The data file ships with the code because the price list has no endpoint in most regions and answers slowly;
`price_date` and `price_region` say what it is worth. Spot prices are never in here: they are asked for.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path


class Market(StrEnum):
    """How an instance is bought."""

    SPOT = "spot"
    ON_DEMAND = "on_demand"


@dataclass(frozen=True)
class GpuType:
    """One EC2 instance type with NVIDIA GPUs. `legacy`: the image's driver no longer supports its GPU."""

    name: str
    gpu: str
    gpus: int
    gpu_mib: int
    vcpus: int
    memory_gib: int
    efa: int
    on_demand_price: float | None
    on_demand_quota: str
    spot_quota: str
    legacy: bool


@dataclass(frozen=True)
class Quota:
    """A vCPU quota of the service `ec2`."""

    code: str
    name: str


@dataclass(frozen=True)
class Catalogue:
    price_date: str
    price_region: str
    quotas: Mapping[str, Quota]
    types: Mapping[str, GpuType]


@cache
def catalogue() -> Catalogue:
    """The shipped catalogue, read once."""
    data = json.loads(Path(__file__).with_name("gpu_types.json").read_text(encoding="utf-8"))
    return Catalogue(
        price_date=data["price_date"],
        price_region=data["price_region"],
        quotas={key: Quota(**quota) for key, quota in data["quotas"].items()},
        types={row["name"]: GpuType(**row) for row in data["types"]},
    )


def gpu_type(name: str) -> GpuType:
    """The type of that name; KeyError for one that no admitted job can have."""
    return catalogue().types[name]


def supported() -> tuple[str, ...]:
    """Names of the types a job may ask for, sorted."""
    return tuple(sorted(name for name, kind in catalogue().types.items() if not kind.legacy))


def cpu_types() -> tuple[str, ...]:
    """Names of the types without a GPU that a job may ask for, sorted."""
    return tuple(sorted(name for name, kind in catalogue().types.items() if kind.gpus == 0))


def quota(kind: GpuType, market: Market) -> Quota | None:
    """The vCPU quota that counts this type in this market; None where AWS's own lists disagree."""
    family = kind.on_demand_quota if market is Market.ON_DEMAND else kind.spot_quota
    return catalogue().quotas.get(f"{family} {market}")
