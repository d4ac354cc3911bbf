"""The instance types Trainyard knows: what they hold, what they cost on demand, which quota they use.

Its prices are one region's (`price_region`, `price_date`) and count where the yard's own are not known
(capacity/prices.py). Spot prices are never in here: they are asked for.
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
        """The markets to try, in this order."""
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
    """One of NVIDIA's, and the branches of its driver (580 of 580.105.08) that serve it: from `first_driver` up to
    `last_driver`, each None for one that no image of today comes near. `open_modules`: whether the driver's open kernel
    modules, which AWS's base images have, serve it too."""

    name: str
    first_driver: int | None = None
    last_driver: int | None = None
    open_modules: bool = True


@dataclass(frozen=True)
class InstanceType:
    """One EC2 instance type with NVIDIA GPUs or without any. `architecture` is EC2's word for its processors."""

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
class Catalogue:
    price_date: str
    price_region: str
    quotas: Mapping[str, Quota]
    generations: Mapping[str, Generation]
    """By the GPU's name."""
    types: Mapping[str, InstanceType]


@cache
def catalogue() -> Catalogue:
    """The shipped catalogue, read once."""
    data = json.loads(Path(__file__).with_name("instance_types.json").read_text(encoding="utf-8"))
    return Catalogue(
        price_date=data["price_date"],
        price_region=data["price_region"],
        quotas={key: Quota(**quota) for key, quota in data["quotas"].items()},
        generations={
            gpu: Generation(name, **data["generations"][name]) for gpu, name in data["gpus"].items()
        },
        types={row["name"]: InstanceType(**row) for row in data["types"]},
    )


def instance_type(name: str) -> InstanceType:
    """The type of that name; KeyError for one that no admitted job can have."""
    return catalogue().types[name]


def generation_of(kind: InstanceType) -> Generation:
    """The generation of its GPUs; KeyError for a type without any."""
    return catalogue().generations[kind.gpu]


def all_types() -> tuple[str, ...]:
    """Names of every type, sorted; which of them an image serves, compatibility.py knows."""
    return tuple(sorted(catalogue().types))


def cpu_types() -> tuple[str, ...]:
    """Names of the types without a GPU that the roles without one may run on, sorted."""
    return tuple(name for name in all_types() if not catalogue().types[name].gpus)


def quota(kind: InstanceType, market: Market) -> Quota | None:
    """The vCPU quota that counts this type in this market; None where AWS's own lists disagree."""
    match market:
        case Market.SPOT:
            family = kind.spot_quota
        case Market.ON_DEMAND:
            family = kind.on_demand_quota
        case _:
            assert_never(market)
    return catalogue().quotas.get(f"{family} {market}")


def raise_quota_command(code: str, vcpus: int, region: str) -> str:
    """Return the command that requests a larger vCPU quota from AWS."""
    return (
        f"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {code} "
        f"--desired-value {vcpus} --region {region}"
    )
