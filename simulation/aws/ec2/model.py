"""What EC2 keeps (instances, images, templates), how long things take, and what stands behind an instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Protocol

from localcloud.services.ec2.capacity.allocation import Pool
from simulation.aws.door.api import Structure

CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
OCCUPIES = frozenset({"pending", "running", "stopping", "shutting-down"})
"""Takes room in its pool and counts against a quota."""
Span = tuple[float, float]
"""Seconds, at least and at most."""


@dataclass(frozen=True)
class Settings:
    """How long things take, and how late EC2 tells of what is new."""

    boot: Span = (4.0, 25.0)
    stop: Span = (5.0, 60.0)
    terminate: Span = (5.0, 45.0)
    image: Span = (120.0, 480.0)
    unknown: Span = (0.0, 3.0)
    """For so long a new instance is unknown or without tags, and a new image is unknown."""
    terminated_shown: float = 3600.0
    page: int = 1000
    """The page size of listings without MaxResults."""


@dataclass(frozen=True)
class Reason:
    """Why an instance left the running state."""

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
    """A time in which an instance ran, and was billed."""

    began: datetime
    price: float
    """Dollars an hour, when it began."""
    ended: datetime | None = None

    def seconds(self, now: datetime) -> float:
        """EC2 bills by the second, and a minute at least."""
        return max(60.0, ((self.ended or now) - self.began).total_seconds())


@dataclass(eq=False, kw_only=True)
class Instance:
    """An instance from its launch on, also after EC2 has forgotten it: the books need it."""

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
    """ARN of the role that the host's calls are made with."""
    security_groups: tuple[str, ...]
    user_data: str | None
    architecture: str
    metadata_options: Mapping[str, Any]
    shutdown_behavior: str
    volume: str
    disk_gib: int
    initialization_rate: int
    """MiB/s at which its disk is fetched, of a snapshot of `snapshot_gib`; 0: as its blocks are touched."""
    snapshot_gib: int
    encrypted: bool
    tags: dict[str, str]
    spot_request: str | None
    token: str
    created: datetime
    launched: datetime
    known_at: datetime
    tags_known_at: datetime
    disk: Structure = field(default_factory=dict)
    """What actors have put on its root disk; images take it along."""
    state: str = "new"
    reason: Reason | None = None
    transition: str = ""
    turn: int = 0
    """Counts its changes of state: a transition that was planned before the last one is void."""
    off_at: datetime | None = None
    """When its power goes, or went, off."""
    reclaimed_at: datetime | None = None
    """What a spot interruption notice says."""
    intervals: list[Interval] = field(default_factory=list)
    ended: datetime | None = None
    """When it was terminated, its disk deleted."""
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
    """A launch template with its versions, the first is 1."""

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
    taken: dict[str, str] = field(default_factory=dict)
    """Instance by address."""
    first: int = field(init=False)
    size: int = field(init=False)
    next: int = 4

    def __post_init__(self) -> None:
        network = IPv4Network(self.cidr)
        self.first, self.size = int(network.network_address), network.num_addresses

    @property
    def free(self) -> int:
        """AWS keeps five addresses."""
        return self.size - 5 - len(self.taken)

    def take(self, instance: str) -> str:
        """The next free one: an address comes again only after all others."""
        while True:
            address = str(IPv4Address(self.first + self.next))
            self.next = self.next + 1 if self.next + 2 < self.size else 4
            if address not in self.taken:
                self.taken[address] = instance
                return address


class Machines(Protocol):
    """What stands behind the instances. None of these may wait.

    `stop` and `terminate` ask the system to shut down; its power goes off at `instance.off_at`, which is now when the
    host fails. A host that shuts itself down is not told so."""

    def boot(self, instance: Instance) -> None: ...

    def stop(self, instance: Instance) -> None: ...

    def terminate(self, instance: Instance) -> None: ...

    def reboot(self, instance: Instance) -> None: ...

    def command(
        self, instance: Instance, command_id: str, document: str, parameters: Mapping[str, list[str]]
    ) -> None: ...


class Emit(Protocol):
    def __call__(self, source: str, detail_type: str, detail: Structure, resources: list[str]) -> None: ...
