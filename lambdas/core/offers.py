"""Offers: the pools a gang may be launched from, in the order to try them, and why every other one is out.

A pool is one instance type in one Availability Zone in one market. `make_plan` is the only place that knows
what makes a pool unusable.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from lambdas.core.catalogue import Market
from lambdas.core.job import Job


@dataclass(frozen=True, slots=True)
class Offer:
    """One pool to try. Prices are dollars per host and hour; `on_demand_price` is what the host would cost
    on demand (None where the catalogue knows no price)."""

    type: str
    zone: str
    subnet: str
    market: Market
    price: float
    on_demand_price: float | None

    @property
    def pool(self) -> str:
        """The pool in words: `g5.xlarge in us-east-1a, spot`."""
        return f"{self.type} in {self.zone}, {self.market.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class Excluded:
    """A pool that cannot be used, and why. `code` is one word: not_offered, no_spot_price, no_price,
    too_expensive, no_quota, not_in_zone."""

    type: str
    zone: str
    market: Market
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What the image parameter says and what EC2 knows about it.

    `value` is the parameter's value (`none` before the first bake); `state` is the AMI's state, None when
    EC2 does not know the AMI."""

    parameter: str
    value: str | None
    state: str | None


@dataclass(frozen=True, slots=True)
class Subnet:
    id: str
    zone: str


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """All that is gathered before deciding.

    `offered`: (type, zone) pairs EC2 offers. `spot_prices`: dollars per hour by (type, zone), now.
    `quotas`: vCPU limit by quota code. `used`: vCPUs that count against it now, by quota code."""

    region: str
    subnets: tuple[Subnet, ...]
    offered: frozenset[tuple[str, str]]
    spot_prices: Mapping[tuple[str, str], float]
    quotas: Mapping[str, float]
    used: Mapping[str, int]
    image: ImageFacts


@dataclass(frozen=True, slots=True)
class Plan:
    """What to try, in this order. Goes to the ledger and to plan.json as `wire.to_json` writes it."""

    kind: ClassVar[str] = "plan"
    offers: tuple[Offer, ...]
    excluded: tuple[Excluded, ...]
    image: str
    gang: int
    hourly_cap: float | None
    made: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing can be launched for this job; `reason` holds every reason. Raise errors.NoOffer (`error` says
    which word) with it."""

    kind: ClassVar[str] = "refused"
    error: str
    reason: str
    excluded: tuple[Excluded, ...]


def make_plan(job: Job, facts: PlanFacts, *, now: datetime) -> Plan | Refused:
    """The pools that can hold the whole gang, cheapest first within each market, in the market order the job
    asks for; ties are broken by the job's order of types, then by zone."""
    raise NotImplementedError


def quota_codes(job: Job) -> tuple[str, ...]:
    """The quota codes whose value and usage `make_plan` needs for this job, sorted."""
    raise NotImplementedError


def used_vcpus(instances: Mapping[str, tuple[str, Market]]) -> dict[str, int]:
    """vCPUs in use by quota code, from the live instances' (type, market) by id. Types without GPU count nothing."""
    raise NotImplementedError
