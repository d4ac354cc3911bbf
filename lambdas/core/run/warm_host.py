"""A host in the warm pool (warm_pool.py), as its row has it, also for functions that know no job file. Pure."""

from datetime import datetime, timedelta

from trainyard.core.model.yard import warm
from trainyard.core.model.yard.billing import disk_hour
from trainyard.protocol.plan import Market
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class WarmHost:
    """A host in the warm pool."""

    instance: str
    run: str
    """The run that retains the host and pays for it."""
    type: str
    zone: str
    market: Market
    image: str
    price: float
    disk_gib: int
    gib_month: float
    since: datetime
    """When the run retained it."""
    until: datetime
    """When the host leaves the pool."""
    minutes: float
    """How long it stays after it is wiped."""
    on_demand_price: float | None = None
    ready: datetime | None = None
    """When it was wiped."""
    study: str | None = None
    """The study whose trial retains the host. Only trials of this study can claim it, and it does not count against the
    most hosts of the pool."""

    @property
    def tag(self) -> str:
        return warm.tag_of(self.run, self.until)

    def wipe_times(self, now: datetime) -> tuple[datetime, datetime]:
        """Return when the host was wiped, and when it leaves. The first signal counts."""
        ready = self.ready or now
        return ready, self.until if self.ready else now + timedelta(minutes=self.minutes)

    def dollars(self, at: datetime) -> float:
        """Return the dollars that the host has cost in the pool."""
        hours = max(0.0, (at - self.since).total_seconds()) / 3600
        return round(hours * (self.price + disk_hour(self.disk_gib, self.gib_month)), 5)
