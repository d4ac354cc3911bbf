"""The dead man's switch in numbers: until when may this host run without hearing from anybody? Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from trainyard.protocol.times import LEASE_MARGIN


@dataclass(frozen=True, slots=True)
class Lease:
    """The host powers itself off at `until`; `reason` says where that instant comes from."""

    until: datetime
    reason: str

    def left(self, now: datetime) -> timedelta:
        return self.until - now

    def is_over(self, now: datetime) -> bool:
        return now >= self.until

    def held(self, until: datetime | None) -> "Lease":
        """The lease while somebody holds the host `until` then: that makes it longer, never shorter."""
        if until is None or until <= self.until:
            return self
        return Lease(
            until, f"nobody holds this host any more, and its lease ended at {self.until.isoformat()}"
        )


def at_launch(tag: str) -> Lease:
    """The tag Tag.LEASE."""
    return Lease(
        datetime.fromisoformat(tag), "nobody has given this host an order since it was launched or started"
    )


def while_training(deadline: datetime) -> Lease:
    """A start order came: the run's deadline rules."""
    return Lease(deadline + LEASE_MARGIN, "the run's time limit is over and nobody has released this host")


def while_waiting(now: datetime, *, wait_minutes: float, deadline: datetime | None) -> Lease:
    """The host waits for the next attempt, at most as long as the run may wait for capacity."""
    until = now + timedelta(minutes=wait_minutes) + LEASE_MARGIN
    if deadline is not None:
        until = min(until, deadline + LEASE_MARGIN)
    return Lease(
        until, f"no order since the last attempt, longer than the {wait_minutes:g} minutes a run may wait"
    )


def when_done(now: datetime) -> Lease:
    """Nothing is left to do here: the control plane takes an image or releases the host, or has forgotten it."""
    return Lease(now + 4 * LEASE_MARGIN, "the program ended an hour ago and nobody has released this host")
