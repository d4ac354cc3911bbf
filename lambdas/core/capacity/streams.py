"""The streamed data of a job in its plan: requests and dollars for each pass, and the disk that a cache needs."""

from collections.abc import Iterator, Mapping

from trainyard.core.model.job import Job
from trainyard.core.model.program import Data, Listed, Sharding
from trainyard.protocol.storage import GET_DOLLARS
from trainyard.values.quantities import format_bytes, format_count

GIB = 1024**3


def find_fault(data: Mapping[str, Data], disk: int) -> str | None:
    """Return the fault of caches that do not fit on the disk of a host, all together. Return None for a disk of unknown
    size."""
    caches = {name: entry.cache_gib for name, entry in data.items() if entry.cache_gib}
    total = sum(caches.values())
    if not disk or total <= disk:
        return None
    named = " and ".join(f"data.{name}.cache_gib: {size}" for name, size in caches.items())
    return (
        f"{named} take {total} GiB, but the disk of each host has {disk} GiB in all: set hardware.disk_gib: "
        f"{disk + total}, or make the cache smaller"
    )


def describe(job: Job) -> str:
    """Return the requests and dollars of streamed data, as sentences; nothing without streams."""
    return " ".join(_describe(job))


def _describe(job: Job) -> Iterator[str]:
    for name, entry in job.data.items():
        listed = entry.listed
        if listed is None or not listed.objects:
            continue
        more = " or more" if listed.is_cut else ""
        each = _pass(entry, listed, job.cluster.most_workers)
        yield (
            f"data.{name} streams {format_count(listed.objects, 'object')}{more} ({format_bytes(listed.bytes)}, "
            f"{format_bytes(listed.bytes / listed.objects)} on average): {each}."
        )


def _pass(entry: Data, listed: Listed, workers: int) -> str:
    """Describe one pass over the data."""
    dollars = listed.gets * GET_DOLLARS
    if entry.sharding is Sharding.FILE:
        return f"{format_count(listed.gets, 'GET request')} (${dollars:.4f}) a pass, shared out among {workers} workers"
    return f"{format_count(listed.gets, 'GET request')} (${dollars:.4f}) a pass and host"
