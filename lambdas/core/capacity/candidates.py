"""Candidates: the capacity pools for a gang, in their order.

The gang of roles without a GPU is launched beside the main gang: same zone, same market, a CPU type.
`exclusion.py` decides what makes a capacity pool unusable.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from lambdas.core.capacity import container, initialization, quarantine, streams
from lambdas.core.capacity.exclusion import (
    PlanInputs,
    Pool,
    Reason,
    check_price,
    find_beside,
    find_price,
    find_reasons,
    hourly_dollars,
    types_of,
)
from lambdas.core.capacity.image_choice import choose_image, disk_gib
from lambdas.core.capacity.plan import TAKES, describe_candidates, fit_job, requests
from trainyard.core.model.errors import Refused
from trainyard.core.model.hardware import Hardware, Preference
from trainyard.core.model.images.image import Image
from trainyard.core.model.instance_types import instance_type, quota
from trainyard.core.model.job import Job
from trainyard.core.model.yard.billing import disk_hour
from trainyard.protocol.plan import Candidate, Excluded, Market, Plan
from trainyard.protocol.storage import Storage
from trainyard.values.lazy import dataclass

WITH_GPUS_FIRST: Reason = ("no_gpu", "It has no GPU, and a type with one is available.")
BY_SIZE = ("no_quota", "too_expensive")
"""Reasons that fewer workers may avoid."""


@dataclass(frozen=True)
class NoPlan(Refused):
    """No candidate for this job; `reason` contains every reason. `error` is NoCapacity, QuotaExceeded,
    Misconfigured, or JobRefused if hardware.image names no usable image."""

    excluded: tuple[Excluded, ...]


def make_plan(job: Job, inputs: PlanInputs, *, now: datetime) -> Plan | NoPlan:
    """Return the plan: capacity pools that can hold the whole gang, cheapest first within each market, in the job's
    order of markets. The job's order of types, then the zone, breaks ties. With `prefer: speed` a request names
    several of them."""
    elsewhere = _elsewhere(job.hardware, inputs)
    if elsewhere:
        return NoPlan("JobRefused", elsewhere, ())
    candidates, excluded = _sort_out(job, inputs)
    image = choose_image(inputs.image, job.hardware)
    if isinstance(image, Refused):
        reason = " ".join([image.reason, *_no_pool(job, candidates, excluded)])
        return NoPlan(image.error, reason, excluded)
    if not candidates:
        error = "QuotaExceeded" if all(each.code == "no_quota" for each in excluded) else "NoCapacity"
        return NoPlan(error, "\n".join(_no_pool(job, candidates, excluded)), excluded)
    if too_large := container.find_fault(job.program.container, image, disk_gib(job.hardware, image)):
        return NoPlan("JobRefused", too_large, excluded)
    if no_room := streams.find_fault(job.data, disk_gib(job.hardware, image)):
        return NoPlan("JobRefused", no_room, excluded)
    image_gib = sum(snapshot.gib for snapshot in image.snapshots)
    candidates = tuple(_with_rate(job, inputs, candidate, image_gib) for candidate in candidates)
    candidates, tried_last = quarantine.sort_last(candidates, inputs.quarantined, now)
    return Plan(
        candidates=candidates,
        excluded=excluded,
        image=image.id,
        gang=job.gang,
        least_gang=job.at_least.gang,
        hourly_cap=job.hardware.max_dollars_per_hour,
        made=now,
        reason=_why(job, inputs, candidates, excluded, image_gib)
        + tried_last
        + _fetched(job, candidates, image),
        cpu_gang=job.cpu_gang,
        image_gib=image_gib,
        disk_gib=disk_gib(job.hardware, image),
        gib_month=inputs.prices.gib_month(Storage.DISK),
        prices=_describe_prices(job, inputs),
    )


def _fetched(job: Job, candidates: Sequence[Candidate], image: Image) -> str:
    """Return what hosts of the first candidate pull and stream."""
    kind, disk = instance_type(candidates[0].type), disk_gib(job.hardware, image)
    said = container.describe(job.program.container, image, kind, job.gang, disk).rstrip()
    return "".join(f" {each}" for each in (said, streams.describe(job)) if each)


def quota_codes(job: Job) -> tuple[str, ...]:
    """Return the quota codes that `make_plan` needs for this job, sorted."""
    quotas = [
        quota(instance_type(name), market) for name in types_of(job) for market in job.hardware.market.markets
    ]
    return tuple(sorted({each.code for each in quotas if each}))


def _sort_out(job: Job, inputs: PlanInputs) -> tuple[tuple[Candidate, ...], tuple[Excluded, ...]]:
    """Return every capacity pool that the job allows, once: as a candidate, or excluded with every reason. Types
    without a GPU count only if no type with a GPU is a candidate."""
    candidates: list[Candidate] = []
    excluded: list[Excluded] = []
    zones = sorted(
        {*inputs.subnets, *(zone for name, zone in inputs.offered if name in job.hardware.instance_types)}
    )
    zones = [zone for zone in zones if not job.hardware.zones or zone in job.hardware.zones]
    for market in job.hardware.market.markets:
        of_market: list[tuple[float, int, str, Candidate]] = []
        for rank, name in enumerate(job.hardware.instance_types):
            for zone in zones:
                pool = Pool(instance_type(name), zone, market)
                sized, against = _fit_workers(job, inputs, pool)
                if against:
                    reason = " ".join(text for _, text in against)
                    excluded.append(Excluded(name, zone, market, against[0][0], reason))
                else:
                    candidate = _candidate(sized, inputs, pool, inputs.subnets[zone])
                    if sized is not job:
                        candidate = replace(candidate, workers=sized.cluster.most_workers)
                    dollars = hourly_dollars(sized, candidate.price, candidate.beside) / sized.gang
                    of_market.append((dollars, rank, zone, candidate))
        candidates += [candidate for *_, candidate in sorted(of_market, key=lambda row: row[:3])]
    with_gpus = [candidate for candidate in candidates if instance_type(candidate.type).gpus]
    for candidate in candidates if with_gpus else ():
        if candidate not in with_gpus:
            excluded.append(Excluded(candidate.type, candidate.zone, candidate.market, *WITH_GPUS_FIRST))
    return tuple(with_gpus or candidates), tuple(excluded)


def _fit_workers(job: Job, inputs: PlanInputs, pool: Pool) -> tuple[Job, list[Reason]]:
    """Return the job with as many workers as fit, and the reasons that exclude the pool even with the fewest."""
    against, sized = find_reasons(job, inputs, pool), job
    for workers in range(job.cluster.most_workers - 1, job.cluster.least_workers - 1, -1):
        if not against or any(code not in BY_SIZE for code, _ in against):
            break
        sized = job.with_workers(workers)
        against = find_reasons(sized, inputs, pool)
    return sized, against


def _candidate(job: Job, inputs: PlanInputs, pool: Pool, subnet: str) -> Candidate:
    price = find_price(inputs, pool, pool.kind)
    assert price is not None  # a pool without a price is excluded
    beside = find_beside(job, inputs, pool)
    return Candidate(
        type=pool.kind.name,
        zone=pool.zone,
        subnet=subnet,
        market=pool.market,
        price=price,
        on_demand_price=inputs.prices.on_demand(pool.kind.name),
        beside=tuple(
            each for each in beside if not check_price(job, inputs, hourly_dollars(job, price, (each,)))
        ),
    )


def _with_rate(job: Job, inputs: PlanInputs, candidate: Candidate, disk_gib: int) -> Candidate:
    """Return the candidate with its initialization rate. Both gangs share the region's limit."""
    rate = initialization.rate(
        most=inputs.initialization_rate,
        hosts=job.gang,
        gib=disk_gib,
        gib_month=inputs.prices.gib_month(Storage.DISK),
        dollars_per_hour=hourly_dollars(job, candidate.price, candidate.beside),
        limit=job.limits.dollars,
    )
    return replace(candidate, initialization_rate=rate)


def _elsewhere(hardware: Hardware, inputs: PlanInputs) -> str | None:
    """Return the fault of a zone that the yard does not have."""
    for index, zone in enumerate(hardware.zones):
        if zone not in inputs.subnets:
            return (
                f'hardware.zones[{index}]: "{zone}" is not a zone of this yard, which is in {inputs.region} and has '
                f"subnets in {', '.join(sorted(inputs.subnets))}; name some of these, or remove the key to "
                "allow all of them"
            )
    return None


def _no_pool(job: Job, candidates: tuple[Candidate, ...], excluded: tuple[Excluded, ...]) -> list[str]:
    """Return a line for each reason with its capacity pools; nothing if there are candidates."""
    if candidates:
        return []
    groups: dict[tuple[Market, str], dict[str, list[str]]] = {}
    for each in excluded:
        groups.setdefault((each.market, each.reason), {}).setdefault(each.type, []).append(each.zone)
    least = f"at least {job.at_least.gang}" if job.cluster.is_elastic else f"{job.gang}"
    lines = [f"No capacity pool can hold the gang of {least}; nothing was launched."]
    for (market, reason), types in groups.items():
        where = "; ".join(f"{name} in {', '.join(zones)}" for name, zones in types.items())
        lines.append(f"- {market.replace('_', '-')}, {where}: {reason}")
    return lines


def _disks(job: Job, inputs: PlanInputs) -> str:
    """Return the cost of the disks, if the job sets their size."""
    gib = job.hardware.disk_gib
    if gib is None:
        return ""
    hourly = job.gang * disk_hour(gib, inputs.prices.gib_month(Storage.DISK))
    return f" and ${hourly:.3f} for {job.gang} disk{'' if job.gang == 1 else 's'} of {gib} GiB"


def _describe_prices(job: Job, inputs: PlanInputs) -> str:
    return inputs.prices.describe_source(types_of(job), [Storage.DISK])


def _why(
    job: Job,
    inputs: PlanInputs,
    candidates: tuple[Candidate, ...],
    excluded: tuple[Excluded, ...],
    image_gib: int,
) -> str:
    first = candidates[0]
    beside = f" beside {job.cpu_gang} x {first.beside[0].type}" if first.beside else ""
    once = job.gang * initialization.dollars(
        image_gib, first.initialization_rate, inputs.prices.gib_month(Storage.DISK)
    )
    fetched = f", and ${once:.3f} once for disks at {first.initialization_rate} MiB/s" if once else ""
    hourly = hourly_dollars(fit_job(job, first), first.price, first.beside)
    return (
        f"{len(candidates)} of {len(candidates) + len(excluded)} capacity pools can hold the gang of {_sizes(job)}: "
        f"{_order(job.hardware, candidates)}{first.pool}{beside}, ${hourly:.3f} an hour for the gang"
        f"{_disks(job, inputs)}{fetched}. "
        f"{_fewer(job, inputs, candidates)}On-demand and disk prices: {_describe_prices(job, inputs)}."
    )


def _order(hardware: Hardware, candidates: Sequence[Candidate]) -> str:
    """Return the order of the candidates, up to the first one's name."""
    match hardware.prefer:
        case Preference.PRICE:
            markets = " before ".join(market.replace("_", "-") for market in hardware.market.markets)
            return f"{markets}, cheapest first. First: "
        case Preference.SPEED:
            batches = [
                [candidates[index] for index in each]
                for each in requests(range(len(candidates)), candidates, hardware.prefer)
            ]
            order = ", then ".join(map(_batch, batches))
            return f"by speed, EC2 gets requests for {order}. The cheapest of the first: "
    assert_never(hardware.prefer)


def _batch(batch: Sequence[Candidate]) -> str:
    return (
        describe_candidates(batch)
        if len(batch) == 1
        else f"{describe_candidates(batch)} ({TAKES[batch[0].market]})"
    )


def _sizes(job: Job) -> str:
    return f"{job.at_least.gang} to {job.gang}" if job.cluster.is_elastic else f"{job.gang}"


def _fewer(job: Job, inputs: PlanInputs, candidates: tuple[Candidate, ...]) -> str:
    """Return which candidates hold fewer workers than the job allows, and why."""
    groups: dict[str, list[str]] = {}
    for candidate in candidates:
        if candidate.workers is not None:
            pool = Pool(instance_type(candidate.type), candidate.zone, candidate.market)
            more = job.with_workers(candidate.workers + 1)
            why = " ".join(text for _, text in find_reasons(more, inputs, pool))
            groups.setdefault(
                f"{candidate.workers} of {job.cluster.most_workers} workers fit: {why}", []
            ).append(candidate.pool)
    return "".join(f"{'; '.join(pools)}: {why} " for why, pools in groups.items())
