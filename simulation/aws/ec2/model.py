"""Instances, images and templates of EC2, delays, and the interface to the machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Protocol

from localcloud.services.ec2.capacity.allocation import Pool
from simulation.aws.endpoint.api import Structure

CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
OCCUPIES = frozenset({"pending", "running", "stopping", "shutting-down"})
"""States that use capacity of the pool and count against a quota."""
Span = tuple[float, float]
"""The minimum and maximum in seconds."""


@dataclass(frozen=True)
class Settings:
    """The durations of operations in seconds, and how late EC2 lists new resources."""

    boot: Span = (4.0, 25.0)
    stop: Span = (5.0, 60.0)
    terminate: Span = (5.0, 45.0)
    image: Span = (120.0, 480.0)
    unknown: Span = (0.0, 3.0)
    """A new instance is not listed, or has no tags, for this time; a new image is not listed."""
    terminated_shown: float = 3600.0
    page: int = 1000
    """The page size of listings without MaxResults."""


@dataclass(frozen=True)
class Reason:
    """The reason why an instance left the running state."""

    code: str
    text: str
    transition: str


BY_USER = Reason("Client.UserInitiatedShutdown", "User initiated shutdown", "User initiated")
BY_HOST = Reason("Client.InstanceInitiatedShutdown", "Instance initiated shutdown", "")
BY_SPOT = Reason(
    "Server.SpotInstanceTermination", "Spot instance termination", "Server.SpotInstanceTermination"
)
BY_FAILURE = Reason("Server.InternalError", "The host of the instance failed", "Server.InternalError")
ON_LAUNCH = Reason("Server.InternalError", "Internal error on launch", "Server.InternalError")


@dataclass
class Interval:
    """A billed period of a running instance."""

    began: datetime
    price: float
    """Dollars per hour at the start."""
    ended: datetime | None = None

    def seconds(self, now: datetime) -> float:
        """Return the billed seconds: by the second, with a minimum of a minute."""
        return max(60.0, ((self.ended or now) - self.began).total_seconds())


@dataclass(eq=False, kw_only=True)
class Instance:
    """An instance from its launch on. It is kept for the bill after EC2 has dropped it."""

    id: str
    reservation: str
    fleet: str
    pool: Pool
    image: str
    subnet: str
    vpc: str
    address: str
    template: str
    profile: str | None
    role: str | None
    """ARN of the role with which the host calls AWS."""
    security_groups: tuple[str, ...]
    user_data: str | None
    architecture: str
    metadata_options: Mapping[str, Any]
    shutdown_behavior: str
    volume: str
    disk_gib: int
    initialization_rate: int
    """MiB/s at which the disk is initialized from its snapshot of `snapshot_gib`; 0: on first access."""
    snapshot_gib: int
    encrypted: bool
    tags: dict[str, str]
    spot_request: str | None
    token: str
    created: datetime
    launched: datetime
    listed_at: datetime
    tags_listed_at: datetime
    disk: Structure = field(default_factory=dict)
    """Data that hosts have put on the root disk. Images copy it."""
    state: str = "new"
    reason: Reason | None = None
    transition: str = ""
    turn: int = 0
    """The number of state changes. A transition that was planned before the last change is void."""
    off_at: datetime | None = None
    """When the power goes or went off."""
    reclaimed_at: datetime | None = None
    """The time in the spot interruption notice."""
    intervals: list[Interval] = field(default_factory=list)
    ended: datetime | None = None
    """When it was terminated and its disk deleted."""
    shown: Structure | None = None

    @property
    def type(self) -> str:
        return self.pool.instance_type

    @property
    def zone(self) -> str:
        return self.pool.zone

    @property
    def spot(self) -> bool:
        return self.pool.market == "spot"

    @property
    def live(self) -> bool:
        return self.state in ("pending", "running")


@dataclass(eq=False, kw_only=True)
class Snapshot:
    id: str
    volume: str
    gib: int
    owner: str
    started: datetime
    description: str
    encrypted: bool
    tags: dict[str, str]
    state: str = "pending"


@dataclass(eq=False, kw_only=True)
class Image:
    id: str
    name: str
    owner: str
    description: str
    architecture: str
    root_device: str
    snapshot: Snapshot
    created: datetime
    known_at: datetime
    tags: dict[str, str]
    source: str | None = None
    state: str = "pending"
    why: str = ""
    protected: bool = False
    disk: Structure = field(default_factory=dict)


@dataclass(frozen=True)
class Template:
    """A launch template with its versions; the first is 1."""

    id: str
    name: str
    versions: list[Mapping[str, Any]]
    tags: Mapping[str, str]


@dataclass
class Subnet:
    id: str
    zone: str
    vpc: str
    cidr: str
    used: dict[str, str] = field(default_factory=dict)
    """Instances by address."""
    first: int = field(init=False)
    size: int = field(init=False)
    next: int = 4

    def __post_init__(self) -> None:
        network = IPv4Network(self.cidr)
        self.first, self.size = int(network.network_address), network.num_addresses

    @property
    def free(self) -> int:
        """Return the number of free addresses. AWS reserves five."""
        return self.size - 5 - len(self.used)

    def take(self, instance: str) -> str:
        """Take the next free address. An address is reused only after all others."""
        while True:
            address = str(IPv4Address(self.first + self.next))
            self.next = self.next + 1 if self.next + 2 < self.size else 4
            if address not in self.used:
                self.used[address] = instance
                return address


class Machines(Protocol):
    """The machines behind the instances. None of the methods may wait.

    `stop` and `terminate` shut the system down; its power goes off at `instance.off_at`, which is now for a
    failed host. They are not called for a host that shuts itself down.
    """

    def boot(self, instance: Instance) -> None: ...

    def stop(self, instance: Instance) -> None: ...

    def terminate(self, instance: Instance) -> None: ...

    def reboot(self, instance: Instance) -> None: ...

    def command(
        self, instance: Instance, command_id: str, document: str, parameters: Mapping[str, list[str]]
    ) -> None: ...


class Emit(Protocol):
    def __call__(self, source: str, detail_type: str, detail: Structure, resources: list[str]) -> None: ...
