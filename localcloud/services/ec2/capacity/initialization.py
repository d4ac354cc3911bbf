"""How fast EBS fetches volumes from snapshots: what a request may ask for, and what a region gives at a time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from localcloud.services.ec2.capacity.allocation import Grant, Refusal

LEAST, MOST = 100, 300
"""MiB/s for one volume."""
REGION_MOST = 5_000
"""MiB/s of all volumes that are being initialized at a time, a quota of the account in the region."""


def fault(ebs: dict[str, Any], *, snapshot: bool) -> Refusal | None:
    """What is wrong with the rate that a block device asks for."""
    rate = ebs.get("VolumeInitializationRate")
    if rate is None:
        return None
    if not snapshot:
        return Refusal(
            "InvalidParameterCombination",
            "The parameter VolumeInitializationRate is only supported for volumes that are created from a snapshot.",
        )
    if not LEAST <= int(rate) <= MOST:
        return Refusal(
            "InvalidParameterValue",
            f"Value ({rate}) for parameter VolumeInitializationRate is invalid. Valid range: {LEAST} - {MOST} MiB/s.",
        )
    return None


def goes_on(*, gib: int, rate: int, made: datetime, now: datetime) -> bool:
    """Whether a volume is still being initialized. How much of it was ever written nobody knows here: the whole."""
    return rate > 0 and now < made + timedelta(seconds=gib * 1024 / rate)


def grant(in_progress: Iterable[int], rate: int) -> Grant | None:
    """How many volumes of this rate may be made beside those of the rates that go on; None: any number."""
    if not rate:
        return None
    free = REGION_MOST - sum(in_progress)
    return Grant(
        max(0, free // rate),
        Refusal(
            "VolumeInitializationRateLimitExceeded",
            f"You have exceeded your maximum cumulative volume initialization rate of {REGION_MOST} MiB/s in this "
            "region. Wait for some of the in-progress requests to complete or request a quota increase.",
        ),
    )
