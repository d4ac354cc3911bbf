"""The plan of a run: the capacity pools to try, in this order, and why every other pool is excluded.

The ledger's row `plan` and the run's plan.json contain the plan as `serialization.to_json` writes it.
"""

from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, assert_never

from trainyard.protocol.cluster import Gang
from trainyard.protocol.storage import GIB_MONTH, Storage
from trainyard.values.lazy import dataclass


class Market(StrEnum):
    """How an instance is bought."""

    SPOT = "spot"
    ON_DEMAND = "on_demand"

    @property
    def can_stop(self) -> bool:
        """Return True if EC2 can stop such a host. It can only terminate a spot host of a fleet."""
        match self:
            case Market.SPOT:
                return False
            case Market.ON_DEMAND:
                return True
        assert_never(self)


class RefusalKind(StrEnum):
    """Why a capacity pool refused. lambdas/aws maps EC2's codes to these kinds."""

    CAPACITY = "capacity"
    """The pool has no capacity now."""
    QUOTA = "quota"
    """The account's quota is full."""
    THROTTLED = "throttled"
    """Too many requests."""
    UNSUPPORTED = "unsupported"
    """This pool can never hold this gang, for example because the zone does not offer the type."""
    CONFIGURATION = "configuration"
    """The yard is set up wrongly: every pool would refuse."""
    ACCESS = "access"
    """A role lacks a permission: every pool would refuse."""


@dataclass(frozen=True)
class Priced:
    """An instance type in a zone and market, with its price."""

    type: str
    price: float
    """Dollars an hour of one host."""
    on_demand_price: float | None
    """Dollars an hour of the same host on demand; None if the price is unknown."""


@dataclass(frozen=True)
class Candidate:
    """A capacity pool to try: one instance type in one zone in one market."""

    type: str
    zone: str
    subnet: str
    market: Market
    price: float
    """Dollars an hour of one host."""
    on_demand_price: float | None
    """Dollars an hour of the same host on demand; None if the price is unknown."""
    beside: tuple[Priced, ...] = ()
    """The CPU types that the second gang may be of here, cheapest first. Empty if the job has no second gang."""
    initialization_rate: int = 0
    """MiB/s that are asked for the disk of each host; 0 for none."""
    workers: int | None = None
    """How many workers fit here, if they are fewer than the job may have."""

    @property
    def pool(self) -> str:
        """Return the pool in words: `g5.xlarge in us-east-1a, spot`."""
        return f"{self.type} in {self.zone}, {self.market.replace('_', '-')}"

    def choices(self, gang: Gang) -> tuple[Priced, ...]:
        """Return the types that this gang may be of here."""
        match gang:
            case Gang.MAIN:
                return (Priced(self.type, self.price, self.on_demand_price),)
            case Gang.CPU:
                return self.beside
        assert_never(gang)


@dataclass(frozen=True)
class Excluded:
    """A capacity pool that cannot be used."""

    type: str
    zone: str
    market: Market
    code: str
    """The first reason: incompatible, no_subnet, not_offered, no_mount_target, no_spot_price, no_price, no_quota,
    no_cpu_type (each of hardware.cpu_instance_types has another), too_expensive."""
    reason: str


@dataclass(frozen=True)
class Plan:
    """The capacity pools to try."""

    kind: ClassVar[str] = "plan"
    candidates: tuple[Candidate, ...] = field(metadata={"formerly": "offers"})
    """Candidates, the first choice first."""
    excluded: tuple[Excluded, ...]
    image: str
    """The AMI that hosts start from."""
    gang: int
    """The most hosts of an attempt."""
    hourly_cap: float | None
    """The most dollars an hour that the job pays; None for any."""
    made: datetime
    reason: str
    cpu_gang: int = 0
    """How many of the hosts are in the second gang."""
    disk_gib: int = 0
    """Size of a host's disk."""
    image_gib: int = 0
    """Size of the image, which is fetched to the disk."""
    gib_month: float = GIB_MONTH[Storage.DISK]
    """Dollars for each GiB of a host's disk and month."""
    prices: str = ""
    """The source of the prices of instances and disks, as a sentence."""
    least_gang: int = 0
    """The fewest hosts of an attempt."""

    def price_of(self, name: str, zone: str, market: Market, gang: Gang) -> Priced | None:
        """Return the price of a host of this type and gang in a zone and market, or None without such a candidate."""
        pools = (
            candidate for candidate in self.candidates if (candidate.zone, candidate.market) == (zone, market)
        )
        choices = (choice for candidate in pools for choice in candidate.choices(gang))
        return next((choice for choice in choices if choice.type == name), None)
