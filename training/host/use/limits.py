"""Find what limits a program, and the rank that is slower than the others, from the use of the hosts. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from trainyard.core.model import host_use
from trainyard.core.model.host_use import HostUse

LEAST_SAMPLES = 3
"""A limit is named after this many samples: one minute."""
WAITS_PERCENT = 20.0
"""A program that waits less for its input is not limited by it."""
IDLE_PERCENT = 40.0
"""GPUs that wait less are busy: a program synchronizes, saves and prints, too."""
BUSY_SHARE = 0.7
"""With this share of the processors busy, they are the limit."""
HARDLY = 0.3
"""Fewer busy processors than this count as idle."""
FEW = 1.5
SLOW_SAMPLES = 9
"""A rank is slow if it is slower in this many samples in a row: three minutes."""
SLOWER_POINTS = 25.0
SLOWER_FACTOR = 1.3
SLOWER_PROCESSORS = 0.25
SLOW_CLOCK = 0.85


def find_limit(hosts: Sequence[HostUse]) -> str | None:
    """Return one sentence without a period about what the program waited for, with the advice that fits; None before
    there are enough samples."""
    known = [host for host in hosts if len(host.at) >= LEAST_SAMPLES]
    if not known:
        return None
    most = max(known, key=lambda host: host.mean(host_use.INPUT) or 0.0)
    waits = most.mean(host_use.INPUT)
    gpus = [mean for host in known if (mean := host.gpu_mean()) is not None]
    who = "the GPUs" if gpus else "the program"
    if waits is not None and waits >= WAITS_PERCENT:
        where = f" on {most.role} ({most.instance})" if len(known) > 1 else ""
        cause, advice = _cause(most)
        return f"{who} waited for input {waits:.0f} % of the time{where}: {cause}; {advice}"
    if gpus and (idle := 100 - sum(gpus) / len(gpus)) >= IDLE_PERCENT:
        slow = min(known, key=lambda host: host.gpu_mean() or 0.0)
        cause, advice = _cause(slow)
        return f"the GPUs waited {idle:.0f} % of the time: {cause}; {advice}"
    if gpus:
        busy = sum(gpus) / len(gpus)
        what = f"the GPUs were busy {busy:.0f} % of the time: they are the limit"
        return f"{what}; a faster type, more GPUs or mixed precision helps"
    busiest = max(known, key=lambda host: (host.mean(host_use.PROCESSORS) or 0.0) / host.processors)
    cause, advice = _cause(busiest)
    if _is_busy(busiest):
        return f"{cause}: they are the limit; a type with a GPU or with more processors helps"
    return f"nothing of the host was busy: {cause}; {advice}"


def _cause(host: HostUse) -> tuple[str, str]:
    """Return what the processors did, and the advice that fits."""
    busy, count = host.mean(host_use.PROCESSORS) or 0.0, host.processors
    if _is_busy(host):
        shown = max(1, min(count, round(busy)))
        what = f"{shown} of {count} processors {'were' if shown != 1 else 'was'} busy"
        return (
            what,
            "a type with more processors for each GPU, or examples that are decoded once before the run, helps",
        )
    if busy < HARDLY:
        return (
            f"hardly any of {count} processors was busy, and {_read(host)}",
            "read more at once (num_workers, num_parallel_reads, prefetch) or from the host's disk (mode: copy)",
        )
    if busy < FEW and count > 1:
        return (
            f"1 of {count} processors was busy",
            "prepare batches in parallel (num_workers, num_parallel_calls) and ahead (prefetch)",
        )
    return (
        f"{busy:.1f} of {count} processors were busy, and {_read(host)}",
        "prepare more batches in parallel (num_workers, num_parallel_calls) and ahead (prefetch)",
    )


def _is_busy(host: HostUse) -> bool:
    return (host.mean(host_use.PROCESSORS) or 0.0) >= BUSY_SHARE * host.processors


def _read(host: HostUse) -> str:
    disk, network = host.mean(host_use.DISK_READ) or 0.0, host.mean(host_use.RECEIVED) or 0.0
    return f"{disk:.1f} MB/s came from the disk and {network:.1f} MB/s from the network"


@dataclass(frozen=True, slots=True)
class SlowRank:
    """A rank that the others wait for."""

    instance: str
    reason: str
    """A sentence without a period."""


def find_slow(hosts: Sequence[HostUse]) -> SlowRank | None:
    """Return the rank that was slower than all others in the last SLOW_SAMPLES samples. In synchronous training all
    ranks make the same steps, so only the time that a rank spends on its own tells them apart: its wait for its input,
    its own use of processors, or the clock of its GPUs."""
    if len(hosts) < 2 or any(len(host.at) < SLOW_SAMPLES for host in hosts):
        return None
    return _slow_by_input(hosts) or _slow_by_work(hosts) or _slow_by_clock(hosts)


def _slow_by_input(hosts: Sequence[HostUse]) -> SlowRank | None:
    found = _outlier(hosts, {host.instance: _last(host, host_use.INPUT) for host in hosts})
    if found is None:
        return None
    host, own, others = found
    if own - others < SLOWER_POINTS:
        return None
    return _describe(host, f"it waited for its input {own:.0f} % of the time, the others {others:.0f} %")


def _slow_by_work(hosts: Sequence[HostUse]) -> SlowRank | None:
    found = _outlier(hosts, {host.instance: _last(host, host_use.OWN) for host in hosts})
    if found is None:
        return None
    host, own, others = found
    if own - others < SLOWER_PROCESSORS or own < SLOWER_FACTOR * others:
        return None
    return _describe(
        host,
        f"its program kept {own:.1f} processors busy or waiting for one, the others' programs {others:.1f}",
    )


def _slow_by_clock(hosts: Sequence[HostUse]) -> SlowRank | None:
    """Return the rank whose GPUs have a lower clock, for example because they are too hot."""
    clocks = {host.instance: host.gpu_mean(host_use.MEGAHERTZ, last=SLOW_SAMPLES) for host in hosts}
    negative = {name: None if clock is None else [-clock] for name, clock in clocks.items()}
    found = _outlier(hosts, negative)
    if found is None or -found[1] > SLOW_CLOCK * -found[2]:
        return None
    host, own, others = found
    heat = host.gpu_mean(host_use.CELSIUS, last=SLOW_SAMPLES)
    hot = "" if heat is None else f" at {heat:.0f} °C"
    return _describe(host, f"its GPUs run at {-own:.0f} MHz{hot}, the others' GPUs at {-others:.0f} MHz")


def _last(host: HostUse, name: str) -> list[float] | None:
    values = host.column(name, last=SLOW_SAMPLES)
    return values if len(values) == SLOW_SAMPLES else None


def _outlier(
    hosts: Sequence[HostUse], values: Mapping[str, Sequence[float] | None]
) -> tuple[HostUse, float, float] | None:
    """Return the host with the largest values, its mean, and the median of the others' means; None if its smallest
    value is below that median, so that it is not slower all the time, or if a host has no values."""
    known = {name: each for name, each in values.items() if each}
    if len(known) < len(hosts):
        return None
    means = {name: sum(each) / len(each) for name, each in known.items()}
    worst = max(means, key=lambda name: means[name])
    others = median(mean for name, mean in means.items() if name != worst)
    if min(known[worst]) < others:
        return None
    return next(host for host in hosts if host.instance == worst), means[worst], others


def _describe(host: HostUse, why: str) -> SlowRank:
    return SlowRank(
        host.instance, f"{host.role} ({host.instance}) is slower than the others, which wait for it: {why}"
    )
