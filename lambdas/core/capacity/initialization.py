"""The initialization rate of a gang's root disks: how fast EBS fetches each from the image's snapshot, within the
region's limit and if the time is worth the price. EBS charges it once for each volume, whatever happens to the host."""

from trainyard.protocol.storage import GIB_MONTH, Storage

REGION_MOST = 5_000
"""MiB/s of all new volumes of a region at once. EC2 refuses more."""
RATES = (300, 200, 100)
"""MiB/s for which the yard has launch templates, the fastest first. EBS allows 100 to 300."""
DEAR_ABOVE, DEAR, CHEAP = 200, 0.0036, 0.0024
"""Dollars for each GiB of the snapshot in us-east-1, above and up to 200 MiB/s. The price list does not contain
them; other regions are assumed to be dearer in the proportion of gp3."""
WORTH_HOURS = 0.25
"""The first read of an unfetched disk runs at about 10 MiB/s, so TensorFlow and CUDA take a quarter of an hour. A
rate may cost as much as the hosts would cost in that time."""
WORTH_SHARE = 0.1
"""The largest share of limits.dollars for a rate."""


def rate(*, most: int, hosts: int, gib: int, gib_month: float, dollars_per_hour: float, limit: float) -> int:
    """Return the rate in MiB/s for each of `hosts` disks of `gib`, at most `most`; 0 for none. `dollars_per_hour` is
    the cost of all hosts, `limit` the run's limits.dollars. A disk without a snapshot (0 GiB) needs none."""
    worth = min(dollars_per_hour * WORTH_HOURS, limit * WORTH_SHARE)
    fitting = (each for each in RATES if gib and each <= most and each * hosts <= REGION_MOST)
    return next((each for each in fitting if hosts * dollars(gib, each, gib_month) <= worth), 0)


def dollars(gib: int, mib_a_second: int, gib_month: float) -> float:
    """Return the dollars for one disk, where a GiB of gp3 costs `gib_month`. The size of the image's disks is the
    most that the snapshot can have."""
    if not mib_a_second:
        return 0.0
    dearer = gib_month / GIB_MONTH[Storage.DISK]
    return gib * dearer * (DEAR if mib_a_second > DEAR_ABOVE else CHEAP)
