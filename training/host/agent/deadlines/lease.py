"""The lease: how long this host may run without an order before it powers itself off. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from trainyard.protocol.times import LEASE_MARGIN


@dataclass(frozen=True, slots=True)
class Lease:
    """The host powers itself off at `until`, for `reason`."""

    until: datetime
    reason: str

    def is_over(self, now: datetime) -> bool:
        return now >= self.until

    def prolong(self, until: datetime | None) -> "Lease":
        """Return the lease with a hold `until` then. A hold makes a lease longer, never shorter."""
        if until is None or until <= self.until:
            return self
        return Lease(
            until, f"the hold of this host has ended, and its lease ended at {self.until.isoformat()}"
        )


def lease_at_launch(tag: str) -> Lease:
    """Return the lease of the tag Tag.LEASE."""
    return Lease(
        datetime.fromisoformat(tag), "this host has received no order since it was launched or started"
    )


def while_training(deadline: datetime) -> Lease:
    """Return the lease after a start order: until the run's deadline."""
    return Lease(
        deadline + LEASE_MARGIN, "the run's time limit has passed and the yard has not released this host"
    )


def while_waiting(now: datetime, *, wait_minutes: float, deadline: datetime | None) -> Lease:
    """Return the lease between attempts: as long as the run may wait for capacity."""
    until = now + timedelta(minutes=wait_minutes) + LEASE_MARGIN
    if deadline is not None:
        until = min(until, deadline + LEASE_MARGIN)
    return Lease(
        until, f"no order since the last attempt, longer than the {wait_minutes:g} minutes a run may wait"
    )


def lease_when_done(now: datetime) -> Lease:
    """Return the lease after the last attempt: time for the control plane to make an image and release the host."""
    return Lease(
        now + 4 * LEASE_MARGIN, "the program ended an hour ago and the yard has not released this host"
    )
