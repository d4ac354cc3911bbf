"""How fast EBS fetches a gang's new root disks from their image's snapshot: what the region allows and is worth its
price. EBS asks for it once for each volume, whatever becomes of the host."""

from trainyard.protocol.storage import GIB_MONTH, Storage

REGION_MOST = 5_000
"""MiB/s of all volumes that a region makes at a time: beyond it EC2 refuses."""
RATES = (300, 200, 100)
"""MiB/s for each volume that the yard has launch templates for, the fastest first; EBS takes 100 to 300."""
DEAR_ABOVE, DEAR, CHEAP = 200, 0.0036, 0.0024
"""Dollars for each GiB of the snapshot (us-east-1), above that many MiB/s and up to there. No price list is known to
name it: elsewhere it is taken to be dearer as gp3 is."""
WORTH_HOURS = 0.25
"""A first read of a disk that is not fetched yet goes at about 10 MiB/s: a quarter of an hour for what TensorFlow and
CUDA are. What waiting that long would cost, not waiting may cost."""
WORTH_SHARE = 0.1
"""Of limits.dollars, at most."""


def rate(*, most: int, hosts: int, gib: int, gib_month: float, dollars_per_hour: float, limit: float) -> int:
    """MiB/s to ask for each of so many disks of `gib` each, `most` at most; 0: none. `dollars_per_hour` is what all
    those hosts cost, `limit` the run's. A disk that is of no snapshot (0 GiB) has nothing to fetch."""
    worth = min(dollars_per_hour * WORTH_HOURS, limit * WORTH_SHARE)
    fitting = (each for each in RATES if gib and each <= most and each * hosts <= REGION_MOST)
    return next((each for each in fitting if hosts * dollars(gib, each, gib_month) <= worth), 0)


def dollars(gib: int, mib_a_second: int, gib_month: float) -> float:
    """What one disk costs once, where a GiB of gp3 costs so much a month. Of an image only the size of its whole disks
    is known: the most that it can be."""
    if not mib_a_second:
        return 0.0
    dearer = gib_month / GIB_MONTH[Storage.DISK]
    return gib * dearer * (DEAR if mib_a_second > DEAR_ABOVE else CHEAP)
