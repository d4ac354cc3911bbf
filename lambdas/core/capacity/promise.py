"""The most that a run may cost according to its job, which the yard promises to it. Pure."""

from lambdas.core.capacity.prices import Prices
from trainyard.core.model.job import Job
from trainyard.core.model.yard.billing import disk_hour
from trainyard.protocol.storage import Storage

USUAL_GIB = 200
"""The size of a root disk if the job leaves it to its image."""


def most_dollars(job: Job, prices: Prices, *, hours: float | None = None) -> float:
    """Return `limits.dollars`, or less if the dearest hosts that the job allows cost less in `hours` (default:
    limits.hours). A type without a price leaves `limits.dollars`."""
    hardware = job.hardware
    types = (*hardware.instance_types, *(hardware.cpu_instance_types if job.cpu_gang else ()))
    known = [prices.on_demand(name) for name in types]
    listed = [price for price in known if price is not None]
    if not listed or len(listed) < len(known):
        return job.limits.dollars
    instances = min(job.gang * max(listed), hardware.max_dollars_per_hour or float("inf"))
    disks = job.gang * disk_hour(hardware.disk_gib or USUAL_GIB, prices.gib_month(Storage.DISK))
    return min(job.limits.dollars, round((instances + disks) * (hours or job.limits.hours), 4))
