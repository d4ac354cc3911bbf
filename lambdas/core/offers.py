"""Offers: the pools a gang may be launched from, in the order to try them, and why every other one is out.

A pool is one instance type in one Availability Zone in one market. `make_plan` is the only place that knows
what makes a pool unusable.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from lambdas.core.catalogue import InstanceType, Market, catalogue, instance_type, quota
from lambdas.core.job import Job


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Excluded:
    """A pool that cannot be used, and why. `code` is the first reason's word: no_subnet,
    not_offered, no_spot_price, no_price, no_quota, too_expensive."""

    type: str
    zone: str
    market: Market
    code: str
    reason: str


@dataclass(frozen=True)
class ImageFacts:
    """What the image parameter says and what EC2 knows about it.

    `value` is the parameter's value (`none` before the first bake); `state` is the AMI's state, None when
    EC2 does not know the AMI."""

    parameter: str
    value: str | None
    state: str | None


@dataclass(frozen=True)
class Subnet:
    id: str
    zone: str


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Refused:
    """Nothing can be launched for this job; `reason` holds every reason. `error` is a word of errors.py:
    NoOffer, QuotaExceeded, Misconfigured."""

    kind: ClassVar[str] = "refused"
    error: str
    reason: str
    excluded: tuple[Excluded, ...]


def make_plan(job: Job, facts: PlanFacts, *, now: datetime) -> Plan | Refused:
    """The pools that can hold the whole gang, cheapest first within each market, in the market order the job
    asks for; ties are broken by the job's order of types, then by zone."""
    offers, excluded = _sort_out(job, facts)
    image_fault = _image_fault(facts.image)
    if image_fault:
        return Refused("Misconfigured", " ".join([image_fault, *_no_pool(job, offers, excluded)]), excluded)
    if not offers:
        error = "QuotaExceeded" if all(each.code == "no_quota" for each in excluded) else "NoOffer"
        return Refused(error, "\n".join(_no_pool(job, offers, excluded)), excluded)
    return Plan(
        offers=offers,
        excluded=excluded,
        image=str(facts.image.value),
        gang=job.gang,
        hourly_cap=job.hardware.max_dollars_per_hour,
        made=now,
        reason=_why(job, offers, excluded),
    )


def quota_codes(job: Job) -> tuple[str, ...]:
    """The quota codes whose value and usage `make_plan` needs for this job, sorted."""
    quotas = [
        quota(instance_type(name), market)
        for name in job.hardware.instance_types
        for market in job.hardware.market.markets
    ]
    return tuple(sorted({each.code for each in quotas if each}))


def used_vcpus(instances: Mapping[str, tuple[str, Market]]) -> dict[str, int]:
    """vCPUs in use by quota code, from the live instances' (type, market) by id.

    Types without a GPU count nothing."""
    used: dict[str, int] = {}
    for name, market in instances.values():
        kind = catalogue().types.get(name)
        counted = quota(kind, market) if kind else None
        if kind and counted:
            used[counted.code] = used.get(counted.code, 0) + kind.vcpus
    return used


def _sort_out(job: Job, facts: PlanFacts) -> tuple[tuple[Offer, ...], tuple[Excluded, ...]]:
    """Every pool the job allows, once: as an offer, or excluded with every reason against it."""
    offers: list[Offer] = []
    excluded: list[Excluded] = []
    subnets = {subnet.zone: subnet.id for subnet in reversed(facts.subnets)}
    zones = sorted({*subnets, *(zone for name, zone in facts.offered if name in job.hardware.instance_types)})
    for market in job.hardware.market.markets:
        of_market: list[tuple[float, int, str, Offer]] = []
        for rank, name in enumerate(job.hardware.instance_types):
            for zone in zones:
                against = _against(job, facts, instance_type(name), zone, market, subnets)
                if against:
                    reason = " ".join(text for _, text in against)
                    excluded.append(Excluded(name, zone, market, against[0][0], reason))
                else:
                    offer = _offer(facts, instance_type(name), zone, market, subnets[zone])
                    of_market.append((offer.price, rank, zone, offer))
        offers += [offer for *_, offer in sorted(of_market, key=lambda row: row[:3])]
    return tuple(offers), tuple(excluded)


def _offer(facts: PlanFacts, kind: InstanceType, zone: str, market: Market, subnet: str) -> Offer:
    price = _price(facts, kind, zone, market)
    assert price is not None  # a pool without a price is excluded
    return Offer(
        type=kind.name,
        zone=zone,
        subnet=subnet,
        market=market,
        price=price,
        on_demand_price=kind.on_demand_price,
    )


def _price(facts: PlanFacts, kind: InstanceType, zone: str, market: Market) -> float | None:
    return facts.spot_prices.get((kind.name, zone)) if market is Market.SPOT else kind.on_demand_price


def _against(
    job: Job, facts: PlanFacts, kind: InstanceType, zone: str, market: Market, subnets: Mapping[str, str]
) -> list[tuple[str, str]]:
    """(code, reason) of all that speaks against a pool. No zone stands in a reason: equal reasons group."""
    if zone not in subnets:
        return [("no_subnet", "The yard has no subnet in that zone.")]
    if (kind.name, zone) not in facts.offered:
        return [("not_offered", "EC2 does not offer the type in that zone.")]
    found = [_no_price(facts, kind, zone, market), _no_quota(job, facts, kind, market)]
    found.append(_too_expensive(job, _price(facts, kind, zone, market)))
    return [each for each in found if each]


def _no_price(facts: PlanFacts, kind: InstanceType, zone: str, market: Market) -> tuple[str, str] | None:
    if _price(facts, kind, zone, market) is not None:
        return None
    if market is Market.SPOT:
        return "no_spot_price", "EC2 names no spot price for the type there, so it sells none."
    return (
        "no_price",
        "Trainyard knows no on-demand price of the type, so it could not keep the job's limits.",
    )


def _no_quota(job: Job, facts: PlanFacts, kind: InstanceType, market: Market) -> tuple[str, str] | None:
    counted = quota(kind, market)
    if counted is None or counted.code not in facts.quotas:
        return None  # unknown is not zero: EC2 itself will say
    need, limit, used = kind.vcpus * job.gang, facts.quotas[counted.code], facts.used.get(counted.code, 0)
    if used + need <= limit:
        return None
    in_use = f" of which {used} are in use" if used else ""
    return "no_quota", (
        f'{job.gang} x {kind.name} need {need} vCPUs; the account\'s quota "{counted.name}" ({counted.code}) is '
        f"{limit:g}{in_use}. Raise it: {raise_command(counted.code, used + need, facts.region)}"
    )


def raise_command(code: str, value: int, region: str) -> str:
    """The command that asks AWS for a larger quota."""
    return (
        f"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {code} "
        f"--desired-value {value} --region {region}"
    )


def _too_expensive(job: Job, price: float | None) -> tuple[str, str] | None:
    cap = job.hardware.max_dollars_per_hour
    if cap is None or price is None or price * job.gang <= cap:
        return None
    return "too_expensive", (
        f"{job.gang} hosts cost ${price * job.gang:.3f} an hour there; hardware.max_dollars_per_hour is ${cap:g}."
    )


def _image_fault(image: ImageFacts) -> str | None:
    bake = "Run the bake state machine, then start the job again."
    if image.value is None:
        return f"The image parameter {image.parameter} does not exist, so no host can start. Deploy again."
    if image.value == "none":
        return f"The yard has no image yet: {image.parameter} says none. {bake}"
    if not re.fullmatch(r"ami-[0-9a-f]{8,17}", image.value):
        return f"The image parameter {image.parameter} says {image.value!r}, not the id of an image. {bake}"
    if image.state is None:
        return f"The image parameter {image.parameter} names {image.value}, which does not exist here. {bake}"
    if image.state != "available":
        return f"The image {image.value} is {image.state}, not available. Wait until it is, or bake another."
    return None


def _no_pool(job: Job, offers: tuple[Offer, ...], excluded: tuple[Excluded, ...]) -> list[str]:
    """One line per reason, with the pools it holds for; nothing when there are offers."""
    if offers:
        return []
    groups: dict[tuple[Market, str], dict[str, list[str]]] = {}
    for each in excluded:
        groups.setdefault((each.market, each.reason), {}).setdefault(each.type, []).append(each.zone)
    lines = [f"No pool can hold the gang of {job.gang}; nothing was launched."]
    for (market, reason), types in groups.items():
        where = "; ".join(f"{name} in {', '.join(zones)}" for name, zones in types.items())
        lines.append(f"- {market.replace('_', '-')}, {where}: {reason}")
    return lines


def _why(job: Job, offers: tuple[Offer, ...], excluded: tuple[Excluded, ...]) -> str:
    order = " before ".join(market.replace("_", "-") for market in job.hardware.market.markets)
    first = offers[0]
    return (
        f"{len(offers)} of {len(offers) + len(excluded)} pools can hold the gang of {job.gang}: {order}, cheapest "
        f"first. First: {first.pool}, ${first.price * job.gang:.3f} an hour for the gang."
    )
