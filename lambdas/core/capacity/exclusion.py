"""Everything that a plan depends on, and the reasons that exclude a capacity pool from it."""

from collections.abc import Mapping, Sequence
from typing import assert_never

from lambdas.core.capacity import compatibility, container, container_driver
from lambdas.core.capacity.image_choice import ImageReference
from lambdas.core.capacity.prices import Prices
from trainyard.core.model.gang import size
from trainyard.core.model.images.image import Image
from trainyard.core.model.instance_types import InstanceType, instance_type, quota, raise_quota_command
from trainyard.core.model.job import Job
from trainyard.protocol.cluster import Gang
from trainyard.protocol.ledger.yard import QuarantineRow
from trainyard.protocol.plan import Market, Priced
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count

Reason = tuple[str, str]
"""A reason that excludes a capacity pool: a code for programs, a sentence for users."""
NOT_OFFERED: Reason = ("not_offered", "EC2 does not offer the type in that zone.")


@dataclass(frozen=True)
class PlanInputs:
    """Everything that the plan depends on."""

    region: str
    subnets: Mapping[str, str]
    """The yard's subnets, by zone."""
    offered: frozenset[tuple[str, str]]
    """Pairs of type and zone that EC2 offers."""
    spot_prices: Mapping[tuple[str, str], float]
    """Current dollars an hour, by type and zone."""
    prices: Prices
    """All other prices."""
    quotas: Mapping[str, float]
    """vCPU limits by quota code, whatever is in use now."""
    image: ImageReference
    quarantined: Sequence[QuarantineRow] = ()
    """Hosts whose hardware has failed."""
    initialization_rate: int = 0
    """The largest rate that the yard requests for a disk, in MiB/s."""


@dataclass(frozen=True)
class Pool:
    """A capacity pool that may hold the gang."""

    kind: InstanceType
    zone: str
    market: Market


def types_of(job: Job) -> tuple[str, ...]:
    """Return every instance type that hosts of the job may have."""
    return (*job.hardware.instance_types, *(job.hardware.cpu_instance_types if job.cpu_gang else ()))


def find_beside(job: Job, inputs: PlanInputs, pool: Pool) -> tuple[Priced, ...]:
    """Return the CPU types that zone, market and quotas allow beside this pool's hosts, cheapest first; at equal
    price in the job's order."""
    found = []
    for name in job.hardware.cpu_instance_types if job.cpu_gang else ():
        kind = instance_type(name)
        price = find_price(inputs, pool, kind)
        if price is not None and not _against_beside(job, inputs, pool, kind):
            found.append(Priced(name, price, inputs.prices.on_demand(name)))
    return tuple(sorted(found, key=lambda each: each.price))


def find_price(inputs: PlanInputs, pool: Pool, kind: InstanceType) -> float | None:
    match pool.market:
        case Market.SPOT:
            return inputs.spot_prices.get((kind.name, pool.zone))
        case Market.ON_DEMAND:
            return inputs.prices.on_demand(kind.name)
    assert_never(pool.market)


def hourly_dollars(job: Job, price: float, beside: Sequence[Priced]) -> float:
    """Return the dollars an hour of both gangs, the second one of the first type."""
    return size(job, Gang.MAIN) * price + (size(job, Gang.CPU) * beside[0].price if beside else 0.0)


def find_reasons(job: Job, inputs: PlanInputs, pool: Pool) -> list[Reason]:
    """Return every reason that excludes a pool. Reasons name no zone, so that equal ones can be grouped."""
    incompatible = _incompatible(job, inputs, pool.kind)
    if pool.zone not in inputs.subnets:
        return [*incompatible, ("no_subnet", "The yard has no subnet in that zone.")]
    if (pool.kind.name, pool.zone) not in inputs.offered:
        return [*incompatible, NOT_OFFERED]
    price, beside = find_price(inputs, pool, pool.kind), find_beside(job, inputs, pool)
    found = [
        *incompatible,
        *_unreachable_data(job, pool.zone),
        _no_price(inputs, pool, pool.kind),
        _no_quota(inputs, pool.market, [(size(job, Gang.MAIN), pool.kind)]),
        None if beside or not job.cpu_gang else _no_cpu_type(job, inputs, pool),
        None if price is None else check_price(job, inputs, hourly_dollars(job, price, beside)),
    ]
    return [each for each in found if each]


def _unreachable_data(job: Job, zone: str) -> list[Reason]:
    """Return why hosts in the zone do not reach the file systems of the job."""
    mounted = {name: entry.file_system for name, entry in job.data.items() if entry.file_system}
    return [
        ("no_mount_target", f"data.{name}: {each.unreachable[zone]}")
        for name, each in mounted.items()
        if zone in each.unreachable
    ]


def _no_cpu_type(job: Job, inputs: PlanInputs, pool: Pool) -> Reason:
    """Return why no CPU type can be launched beside this pool's hosts."""
    listed = "hardware.cpu_instance_types"
    reasons: dict[Reason, list[str]] = {}
    for name in job.hardware.cpu_instance_types:
        against = _against_beside(job, inputs, pool, instance_type(name))
        assert against is not None  # otherwise one could be launched
        reasons.setdefault(against, []).append(name)
    codes = {code for code, _ in reasons}
    code = codes.pop() if len(codes) == 1 else "no_cpu_type"
    if code == "not_offered":
        return code, f"No CPU type of {listed} is offered in that zone."
    reasons_of_types = " ".join(f"{', '.join(names)}: {text}" for (_, text), names in reasons.items())
    return code, f"No CPU type of {listed} can be launched beside it. {reasons_of_types}"


def _against_beside(job: Job, inputs: PlanInputs, pool: Pool, kind: InstanceType) -> Reason | None:
    incompatible = _incompatible(job, inputs, kind)
    if incompatible:
        return incompatible[0]
    if (kind.name, pool.zone) not in inputs.offered:
        return NOT_OFFERED
    hosts = [(size(job, Gang.MAIN), pool.kind), (size(job, Gang.CPU), kind)]
    return _no_price(inputs, pool, kind) or _no_quota(inputs, pool.market, hosts)


def _incompatible(job: Job, inputs: PlanInputs, kind: InstanceType) -> list[Reason]:
    """Return why the image or the job's container does not work on the type. An unknown image excludes no type."""
    image = inputs.image.image
    reasons = (
        compatibility.find_conflicts(kind, compatibility.software_of(image)) if image else None,
        container.find_conflict(job.program.container, kind),
        _old_driver(job, image, kind) if image and kind.gpus else None,
    )
    found = " ".join(reason for reason in reasons if reason)
    return [("incompatible", found)] if found else []


def _old_driver(job: Job, image: Image, kind: InstanceType) -> str | None:
    wanted = job.program.container
    manifest = wanted.for_machine(kind.architecture) if wanted else None
    return container_driver.find_conflict(manifest, compatibility.software_of(image))


def _no_price(inputs: PlanInputs, pool: Pool, kind: InstanceType) -> Reason | None:
    if find_price(inputs, pool, kind) is not None:
        return None
    match pool.market:
        case Market.SPOT:
            return "no_spot_price", "EC2 has no spot price for the type there, so it sells none."
        case Market.ON_DEMAND:
            sentence = "The on-demand price of the type is unknown, so the job's limits could not be kept."
            return "no_price", sentence
    assert_never(pool.market)


def _no_quota(inputs: PlanInputs, market: Market, hosts: Sequence[tuple[int, InstanceType]]) -> Reason | None:
    """Return the reason if the quota of the last of these (count, type) is too small for it and those before it in
    the same quota."""
    counted = quota(hosts[-1][1], market)
    if counted is None or counted.code not in inputs.quotas:
        return None  # unknown is not zero: EC2 itself will say
    sharing = [(count, kind) for count, kind in hosts if quota(kind, market) == counted]
    need = sum(count * kind.vcpus for count, kind in sharing)
    limit = inputs.quotas[counted.code]
    if need <= limit:
        return None  # others may use it now: Launch waits for its share
    who = " and ".join(f"{count} x {kind.name}" for count, kind in sharing)
    return "no_quota", (
        f'{who} need {need} vCPUs; the account\'s quota "{counted.name}" ({counted.code}) is '
        f"{limit:g}. Raise it: {raise_quota_command(counted.code, need, inputs.region)}"
    )


def check_price(job: Job, inputs: PlanInputs, dollars: float) -> Reason | None:
    cap = job.hardware.max_dollars_per_hour
    if cap is None or dollars <= cap:
        return None
    return "too_expensive", (
        f"{format_count(job.gang, 'host')} there: ${dollars:.3f} an hour{inputs.prices.caveat(types_of(job))}; "
        f"hardware.max_dollars_per_hour is ${cap:g}."
    )
