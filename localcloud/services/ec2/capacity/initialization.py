"""Initialization rates of EBS volumes: valid values and the limit of a region. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from localcloud.services.ec2.capacity.allocation import Grant, Refusal

LEAST, MOST = 100, 300
"""Range in MiB/s for one volume."""
REGION_MOST = 5_000
"""Limit in MiB/s for all volumes in initialization, a quota of the account in the region."""


def fault(ebs: dict[str, Any], *, snapshot: bool) -> Refusal | None:
    """Return the error in a block device's rate, or None."""
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


def is_initializing(*, gib: int, rate: int, made: datetime, now: datetime) -> bool:
    """Return True if the volume is still in initialization. Assumes that all of the volume has data."""
    return rate > 0 and now < made + timedelta(seconds=gib * 1024 / rate)


def grant(in_progress: Iterable[int], rate: int) -> Grant | None:
    """Return the number of volumes with this rate that fit beside those in progress; None: any number."""
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
