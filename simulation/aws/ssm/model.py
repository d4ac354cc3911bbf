"""Hosts and commands of Systems Manager, and delays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from simulation.aws.ec2.model import Instance, Span
from simulation.aws.ssm.documents import CommandDocument
from simulation.world.world import Planned

UNDER_WAY = ("Pending", "InProgress")


@dataclass(frozen=True)
class Settings:
    """The durations of operations in seconds."""

    register: Span = (1.0, 8.0)
    """Until a registered agent is shown as Online."""
    deliver: Span = (0.2, 2.5)
    unknown: Span = (0.0, 1.5)
    """Until a new command is listed."""
    lost: Span = (300.0, 600.0)
    """A host that is cut off stays Online for this time, then becomes ConnectionLost."""
    forgotten: Span = (5.0, 60.0)
    """A stopped or terminated host stays listed for this time."""


@dataclass
class Step:
    name: str
    status: str = "Pending"
    details: str = "Pending"
    code: int = -1
    stdout: str = ""
    stderr: str = ""
    started: datetime | None = None
    ended: datetime | None = None


@dataclass(eq=False)
class Command:
    id: str
    document: CommandDocument
    parameters: Mapping[str, list[str]]
    comment: str
    timeout: float
    most_errors: int
    requested: datetime
    known_at: datetime
    invocations: dict[str, Invocation] = field(default_factory=dict)
    status: str = "Pending"
    details: str = "Pending"

    @property
    def expires(self) -> datetime:
        return self.requested + timedelta(seconds=self.timeout + self.document.seconds)

    def count(self, *details: str) -> int:
        return sum(each.details in details for each in self.invocations.values())


@dataclass(eq=False)
class Invocation:
    """A command on one host."""

    command: Command
    instance: str
    steps: list[Step]
    status: str = "Pending"
    details: str = "Pending"
    deadline: Planned | None = None


@dataclass(eq=False)
class Host:
    """A host whose agent has registered."""

    instance: Instance
    online_at: datetime
    cut_off: datetime | None = None
    lost_at: datetime | None = None
    listed_until: datetime | None = None
    waiting: list[Invocation] = field(default_factory=list)
    unreported: list[Callable[[], None]] = field(default_factory=list)

    def connected(self, now: datetime) -> bool:
        return self.instance.state == "running" and self.cut_off is None and self.online_at <= now
