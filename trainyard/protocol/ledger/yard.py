"""Rows of a yard that belong to no run: the month's cost, the price list, verdicts, and names of dev hosts."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from trainyard.protocol.verdicts import Word
from trainyard.values.lazy import dataclass


@dataclass(frozen=True)
class Money:
    """The cost of all hosts in a month: `pk = patrol`, `sk = money`."""

    month: str
    """`2026-11`, in UTC."""
    dollars: float
    """The cost of the hosts with their disks."""
    at: datetime
    """The end of the counted time."""


@dataclass(frozen=True, kw_only=True)
class PriceList:
    """The prices of a region, as AWS's price list has them: `pk = patrol`, `sk = prices`."""

    on_demand: Mapping[str, float] = field(default_factory=dict)
    """Dollars an hour, by instance type."""
    storage: Mapping[str, float] = field(default_factory=dict)
    """Dollars for a GiB and month, by Storage."""
    read: datetime | None = None
    """When AWS answered; None until then."""
    requested: datetime = field(metadata={"formerly": "asked"})
    """When patrol last requested the prices."""
    trouble: str = ""
    """Why AWS's last answer is missing."""


@dataclass(frozen=True, kw_only=True)
class VerdictRow:
    """A verdict of patrol."""

    instance: str
    at: datetime
    verdict: Word
    reason: str
    type: str
    market: str
    price: float
    """Dollars an hour, with the disk."""
    until: datetime | None = None
    """When the reason becomes untrue, for example at the end of a hold."""
    saves: float = 0.0
    """Dollars an hour."""
    run: str | None = None
    outcome: str | None = None
    """`done`, `refused` or `deferred`; None for a verdict without an action."""
    refusal: str | None = None
    dev: str | None = None
    """The name of the dev host."""


@dataclass(frozen=True, kw_only=True)
class VerdictRows:
    """Verdicts of one pass: `pk = patrol#<day>`, `sk = <time of the pass>#<number>`."""

    verdicts: tuple[VerdictRow, ...]
    """Up to 500."""


@dataclass(frozen=True, kw_only=True)
class QuarantineRow:
    """A host whose hardware has failed: `pk = quarantine`, `sk = <instance>`. The host is not used again, and plans try
    its capacity pools (both markets) last until `until`."""

    instance: str
    type: str
    zone: str
    run: str
    reason: str
    """The fault."""
    at: datetime
    until: datetime


@dataclass(frozen=True, kw_only=True)
class DevImaging:
    """A snapshot of a dev host that its owner or patrol requested: `pk = dev-imaging`, `sk = <run>`."""

    run: str
    instance: str


@dataclass(frozen=True, kw_only=True)
class DevRow:
    """The owner of a name for dev hosts: `pk = dev`, `sk = <name>`."""

    name: str
    owner: str
    run: str
    """The launch that may start the dev host."""
    request: str = field(metadata={"formerly": "asked"})
    """The request, as JSON."""
    at: datetime
