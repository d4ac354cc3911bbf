"""The plan of a run: the pools to try, in this order, why every other one is out, and what each pool has refused.

`offers.make_plan` makes it, `placement.next_step` walks it. A pool is one instance type in one Availability Zone in one
market.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, assert_never

from trainyard.core.model.gang import Gang, missing
from trainyard.core.model.hardware import PoolOrder
from trainyard.core.model.instance_types import Market, instance_type
from trainyard.core.model.job import Job
from trainyard.core.model.yard.storage import GIB_MONTH, Storage
from trainyard.values.lazy import dataclass


@dataclass(frozen=True)
class Priced:
    """An instance type and its dollars per host and hour in some zone and market; `on_demand_price` is what the host
    would cost on demand (None where nobody knows the price)."""

    type: str
    price: float
    on_demand_price: float | None


@dataclass(frozen=True)
class Offer:
    """One pool to try. Prices are as in Priced. `beside`: the CPU types that the second gang may be of, cheapest
    first; the gang is of one of them. Empty when the job has no second gang. `initialization_rate` is in MiB/s, what is
    asked for the disk of each host; 0: none. `workers`: how many fit there, where that is fewer than the job may have.
    """

    type: str
    zone: str
    subnet: str
    market: Market
    price: float
    on_demand_price: float | None
    beside: tuple[Priced, ...] = ()
    initialization_rate: int = 0
    workers: int | None = None

    def fitting(self, job: Job) -> Job:
        """The job with no more workers than fit there."""
        return job if self.workers is None else job.with_most_workers(self.workers)

    @property
    def pool(self) -> str:
        """The pool in words: `g5.xlarge in us-east-1a, spot`."""
        return f"{self.type} in {self.zone}, {self.market.replace('_', '-')}"

    def joins(self, other: "Offer") -> bool:
        """Whether one request can ask for both: it names one market, one number of hosts, one launch template and, in
        their tags, one number of GPUs."""
        return (self.market, self.workers, self.initialization_rate, self.gpus) == (
            other.market,
            other.workers,
            other.initialization_rate,
            other.gpus,
        )

    @property
    def gpus(self) -> int:
        """Of each host."""
        return instance_type(self.type).gpus

    def choices(self, gang: Gang) -> tuple[Priced, ...]:
        """The types that this gang may be of here."""
        match gang:
            case Gang.MAIN:
                return (Priced(self.type, self.price, self.on_demand_price),)
            case Gang.CPU:
                return self.beside
        assert_never(gang)


TAKES = {
    Market.SPOT: "EC2 takes the one with the most room",
    Market.ON_DEMAND: "EC2 takes the cheapest that has room",
}
"""Of the pools of a market that it is asked for at once."""


def in_words(offers: Sequence[Offer]) -> str:
    """What one request asks: `g5.xlarge in us-east-1a, spot`, or `12 spot pools`."""
    first = offers[0]
    return first.pool if len(offers) == 1 else f"{len(offers)} {first.market.replace('_', '-')} pools"


def requests(
    indexes: Sequence[int], offers: Sequence[Offer], order: PoolOrder
) -> tuple[tuple[int, ...], ...]:
    """In which requests these of the offers are asked: the first one in the first."""
    match order:
        case PoolOrder.PRICE:
            return tuple((index,) for index in indexes)
        case PoolOrder.SPEED:
            found: list[list[int]] = []
            for index in indexes:
                joined = next((each for each in found if offers[each[0]].joins(offers[index])), None)
                if joined is None:
                    found.append([index])
                else:
                    joined.append(index)
            return tuple(map(tuple, found))
    assert_never(order)


@dataclass(frozen=True)
class Part:
    """What one request asks EC2 for: the hosts that a gang lacks, all of one of `choices`, which are those of every
    pool that it asks. With fewer than `least` of them nothing is launched."""

    gang: Gang
    count: int
    choices: tuple[Priced, ...]
    least: int

    def price_of(self, name: str) -> Priced:
        """The choice of that name; KeyError for a type that was not asked for."""
        return {choice.type: choice for choice in self.choices}[name]


@dataclass(frozen=True)
class Excluded:
    """A pool that cannot be used, and why. `code` is the first reason's word: incompatible, no_subnet, not_offered,
    no_spot_price, no_price, no_quota, no_cpu_type (each of hardware.cpu_instance_types has another), too_expensive."""

    type: str
    zone: str
    market: Market
    code: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """What to try, in this order. Goes to the ledger and to plan.json as `wire.to_json` writes it.

    `gang` is the number of hosts of an attempt at most, `least_gang` at least, `cpu_gang` how many of them are CPU
    hosts; `disk_gib` is the size of a host's disks, `image_gib` that of the image's, which are fetched to it;
    `gib_month` the dollars for each GiB of a host's disk and month. `prices` says whose prices those are, and the ones
    on demand."""

    kind: ClassVar[str] = "plan"
    offers: tuple[Offer, ...]
    excluded: tuple[Excluded, ...]
    image: str
    gang: int
    hourly_cap: float | None
    made: datetime
    reason: str
    cpu_gang: int = 0
    disk_gib: int = 0
    image_gib: int = 0
    gib_month: float = GIB_MONTH[Storage.DISK]
    prices: str = ""
    least_gang: int = 0

    def price_of(self, name: str, zone: str, market: Market, gang: Gang) -> Priced | None:
        """Of a host of this type and gang there; None where no offer is of it."""
        pools = (offer for offer in self.offers if (offer.zone, offer.market) == (zone, market))
        choices = (choice for offer in pools for choice in offer.choices(gang))
        return next((choice for choice in choices if choice.type == name), None)


class RefusalKind(StrEnum):
    """What kind of no it was. lambdas/aws maps EC2's codes to these."""

    CAPACITY = "capacity"  # no room in the pool now
    QUOTA = "quota"  # the account's quota is full
    THROTTLED = "throttled"  # too many requests
    UNSUPPORTED = "unsupported"  # this pool will never hold this gang (type not offered in the zone ...)
    CONFIGURATION = "configuration"  # the yard is set up wrongly: every pool would refuse
    ACCESS = "access"  # a role may not: every pool would refuse


@dataclass(frozen=True)
class Refusal:
    """One no. `offer` is the index into the plan's offers; `gang` the one that was refused; `code` is EC2's code,
    `reason` a sentence. `lead`: the offer that the request was made in the name of, where it asked several."""

    offer: int
    round: int
    kind: RefusalKind
    code: str
    reason: str
    at: datetime
    gang: Gang = Gang.MAIN
    lead: int | None = None


def parts(
    job: Job, offers: Sequence[Offer], survivors: Collection[tuple[str, Gang, str]]
) -> tuple[Part, ...]:
    """What the attempt lacks in the pool that EC2 takes of these, which join each other, beside its survivors
    (instance, gang, type), the scarcer main gang first.

    A gang is of one type: where members of it survive, the missing ones are as they are."""
    job, found = offers[0].fitting(job), []
    for gang in Gang:
        mine = [(instance, name) for instance, its_gang, name in survivors if its_gang is gang]
        types = {name for _, name in mine}
        choices = tuple(
            each for offer in offers for each in offer.choices(gang) if not types or each.type in types
        )
        count, least = missing(job, gang, [instance for instance, _ in mine])
        found.append(Part(gang, count, choices, least))
    return tuple(part for part in found if part.count)
