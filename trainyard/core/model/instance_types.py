"""The catalog of instance types: their GPUs, their on-demand prices, and the quotas that count them.

The prices are valid for one region (`price_region`, `price_date`) and are used if the yard has no prices of its own
(capacity/prices.py). The catalog has no spot prices, which change too often.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import assert_never

from trainyard.protocol.plan import Market
from trainyard.values.lazy import dataclass


class MarketChoice(StrEnum):
    """The markets that a job or a dev host may use."""

    SPOT = "spot"
    ON_DEMAND = "on_demand"
    SPOT_THEN_ON_DEMAND = "spot_then_on_demand"

    @property
    def markets(self) -> tuple[Market, ...]:
        """Return the markets to try, in order."""
        match self:
            case MarketChoice.SPOT:
                return (Market.SPOT,)
            case MarketChoice.ON_DEMAND:
                return (Market.ON_DEMAND,)
            case MarketChoice.SPOT_THEN_ON_DEMAND:
                return (Market.SPOT, Market.ON_DEMAND)
        assert_never(self)


@dataclass(frozen=True)
class Generation:
    """A generation of NVIDIA's GPUs, with the branches of the driver that support it (580 of 580.105.08)."""

    name: str
    first_driver: int | None = None
    """The first branch that supports it; None if all branches of current images are newer."""
    last_driver: int | None = None
    """The last branch that supports it; None if no branch has dropped it."""
    open_modules: bool = True
    """True if the driver's open kernel modules support it, which AWS's base images have."""


@dataclass(frozen=True)
class InstanceType:
    """An EC2 instance type with NVIDIA GPUs or without GPUs. `architecture` is EC2's name for its processors."""

    name: str
    vcpus: int
    on_demand_price: float | None
    on_demand_quota: str
    spot_quota: str
    gpu: str = ""
    gpus: int = 0
    architecture: str = "x86_64"


@dataclass(frozen=True)
class Quota:
    """A vCPU quota of the service `ec2`."""

    code: str
    name: str


@dataclass(frozen=True)
class Catalog:
    price_date: str
    price_region: str
    quotas: Mapping[str, Quota]
    generations: Mapping[str, Generation]
    """The generations by the GPU's name."""
    types: Mapping[str, InstanceType]


@cache
def catalog() -> Catalog:
    """Return the catalog, which is read once."""
    data = json.loads(Path(__file__).with_name("instance_types.json").read_text(encoding="utf-8"))
    return Catalog(
        price_date=data["price_date"],
        price_region=data["price_region"],
        quotas={key: Quota(**quota) for key, quota in data["quotas"].items()},
        generations={
            gpu: Generation(name, **data["generations"][name]) for gpu, name in data["gpus"].items()
        },
        types={row["name"]: InstanceType(**row) for row in data["types"]},
    )


def instance_type(name: str) -> InstanceType:
    """Return the type with this name. Raise KeyError for a type that admission refuses."""
    return catalog().types[name]


def generation_of(kind: InstanceType) -> Generation:
    """Return the generation of the type's GPUs. Raise KeyError for a type without GPUs."""
    return catalog().generations[kind.gpu]


def all_types() -> tuple[str, ...]:
    """Return the sorted names of all types. compatibility.py decides which of them an image supports."""
    return tuple(sorted(catalog().types))


def cpu_types() -> tuple[str, ...]:
    """Return the sorted names of the types without a GPU."""
    return tuple(name for name in all_types() if not catalog().types[name].gpus)


def quota(kind: InstanceType, market: Market) -> Quota | None:
    """Return the vCPU quota that counts this type in this market, or None if AWS's lists contradict each other."""
    match market:
        case Market.SPOT:
            family = kind.spot_quota
        case Market.ON_DEMAND:
            family = kind.on_demand_quota
        case _:
            assert_never(market)
    return catalog().quotas.get(f"{family} {market}")


def raise_quota_command(code: str, vcpus: int, region: str) -> str:
    """Return the command that requests a larger vCPU quota from AWS."""
    return (
        f"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {code} "
        f"--desired-value {vcpus} --region {region}"
    )
