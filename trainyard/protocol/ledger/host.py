"""The rows of a run's hosts: `pk = run#<run>`, `sk = host#<instance>`."""

from dataclasses import field
from datetime import datetime

from trainyard.protocol.cluster import Member
from trainyard.protocol.plan import Market
from trainyard.protocol.signals import StopReason
from trainyard.protocol.storage import GET_DOLLARS, GIB_MONTH, Storage
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class BilledHost:
    """A host, with what EC2 bills for it."""

    instance: str
    type: str
    zone: str
    market: Market
    price: float
    """Dollars an hour of the instance, without its disk."""
    on_demand_price: float | None = None
    """Dollars an hour of the same instance on demand; None if the price is unknown."""
    disk_gib: int = 0
    gib_month: float = GIB_MONTH[Storage.DISK]
    """Dollars for each GiB of the disk and month."""
    volume_charge: float = 0.0
    """Dollars once, for the rate at which the disk is initialized."""
    gets: int = 0
    """GET requests to S3 of data that the host's programs streamed, as far as the host has reported them."""
    launched: datetime
    ended: datetime | None = None
    """None while EC2 bills the host."""

    @property
    def charges(self) -> float:
        """Return the dollars that do not depend on the time: for the disk's initialization and for requests."""
        return self.volume_charge + self.gets * GET_DOLLARS


@dataclass(frozen=True, kw_only=True)
class HostRow(Member, BilledHost):
    """A host that a run has launched or claimed from the warm pool."""

    attempt: int
    """The attempt that the host was launched for."""
    ready: int = 0
    """The last attempt that the host was ready for."""
    ready_at: datetime | None = None
    stopped: int = 0
    """The last attempt that the host has left."""
    stopped_at: datetime | None = None
    why: str | None = None
    """Why the host left: a StopReason."""
    details: str | None = None
    """Words of the host about `why`; None if it added none."""
    warned: str | None = None
    """The interruption notice of EC2."""
    lost: str | None = None
    """Why the host is lost."""
    faulty: str | None = None
    """The fault of the host's hardware; None for a sound host. The host is terminated, whatever the job says."""
    releasing: datetime | None = None
    """When a function began to end the host."""
    pooled: datetime | None = None
    """When the host went into the warm pool."""
    expired: datetime | None = field(default=None, metadata={"formerly": "cooled"})
    """When the host left the warm pool."""
    claimed_from: str | None = field(default=None, metadata={"formerly": "taken"})
    """The run that retained the host before, if it was claimed from the warm pool."""

    @property
    def is_unended(self) -> bool:
        """Return True while the host exists and no function ends it, even if it is lost."""
        return self.ended is None and self.releasing is None

    @property
    def lives(self) -> bool:
        """Return True while the host can continue to work."""
        return self.is_unended and self.lost is None

    @property
    def ending_reason(self) -> str | None:
        """Return why the host cannot serve another attempt although it may still live. Return None for a host that
        stays."""
        if self.lost or not (self.warned or self.why == StopReason.INTERRUPTED):
            return self.lost
        return "EC2 takes it back"

    @property
    def stays(self) -> bool:
        """Return True if another attempt can count on the host."""
        return self.lives and self.ending_reason is None
