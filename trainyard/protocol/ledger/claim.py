"""The rows of slots: `pk = open`, `sk = <run>` or `held#<run>`."""

from datetime import datetime
from enum import StrEnum

from trainyard.values.lazy import dataclass


class ClaimKind(StrEnum):
    """Who has the slot."""

    TRAIN = "train"
    """A training run, until it is concluded."""
    BAKE = "bake"
    """A bake, until it is concluded. The lock of bakes is its only slot: its builder waits for no other."""
    HELD = "held"
    """The host of a launch, until it has ended or stopped. Patrol deletes the claim then."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a training run that is not concluded, or a launched host, may use of the yard."""

    run: str
    hosts: int
    """Hosts at once."""
    created: datetime
    """When the run was created, or the launched host was started last."""
    waits: bool
    """True while the run has no slot."""
    kind: ClaimKind = ClaimKind.TRAIN
    dollars: float = 0.0
    """What it may cost at most."""
    by: str = "unknown"
    """The user (core/model/submitter.py)."""
    per_hour: float | None = None
    """Dollars an hour of a launched host with its disk. None before patrol has seen the host."""
    until: datetime | None = None
    """When a launched host must end. None before patrol has seen the host."""
