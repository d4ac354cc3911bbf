"""The rows of slots: `pk = open`, `sk = <run>` or `held#<run>`."""

from datetime import datetime
from enum import StrEnum

from trainyard.values.lazy import dataclass

DEFAULT_PRIORITY = 50


class ClaimKind(StrEnum):
    """The owner of a slot."""

    TRAIN = "train"
    """A training run, until it is concluded."""
    BAKE = "bake"
    """A bake, until it is concluded. The lock of bakes is its only slot: its builder waits for no other."""
    HELD = "held"
    """The host of a launch, until it has ended or stopped. Patrol deletes the claim then."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The slots and money that a run or a dev host may use until it is concluded."""

    run: str
    hosts: int
    """Hosts at once."""
    created: datetime
    """When the run was created, or the launched host was started last."""
    waits: bool
    """True while the run has no slot."""
    kind: ClaimKind = ClaimKind.TRAIN
    priority: int = DEFAULT_PRIORITY
    """The priority of the run in a full yard, from 0 to 100. A higher one starts first."""
    dollars: float = 0.0
    """The most that it may cost."""
    by: str = "unknown"
    """The user (core/model/submitter.py)."""
    per_hour: float | None = None
    """Dollars an hour of a launched host with its disk. None before patrol has seen the host."""
    until: datetime | None = None
    """When a launched host must end. None before patrol has seen the host."""
    given: datetime | None = None
    """When the run got its slot, last; None before its first slot, and for a host. A run that waits for a slot again
    keeps it."""
    leaves_for: str | None = None
    """The run of a higher priority for which this run saves, leaves its hosts, and waits in the queue again."""

    @property
    def promises_dollars(self) -> bool:
        """Return True if its dollars are promised: it has a slot, or had one and will continue."""
        return not self.waits or self.given is not None
