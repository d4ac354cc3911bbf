"""The disk of a host."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from simulation.hosts.environment import CommandEnd
from training.host.agent.state import State
from training.host.disk import FULL_BELOW, Room
from trainyard.core.model.job import Job
from trainyard.protocol.cluster import Cluster

DISK_BYTES = 100 * 1024**3


@dataclass
class Disk:
    """State that survives a reboot or a stop."""

    state: State | None = None
    job: Job | None = None
    clusters: dict[int, Cluster] = field(default_factory=dict)
    checkpoints: set[int] = field(default_factory=set)
    restores: set[int] = field(default_factory=set)
    done: dict[tuple[str, str], CommandEnd] = field(default_factory=dict)
    """The results of a bake's SSM documents by word and run."""
    generalized: bool = False
    is_full: bool = False

    @property
    def room(self) -> Room:
        free = FULL_BELOW // 2 if self.is_full else DISK_BYTES // 2
        return Room(Path("/var/lib/trainyard"), free, DISK_BYTES)

    def wipe(self) -> None:
        """Remove everything that belongs to a run."""
        self.state = self.job = None
        self.clusters, self.checkpoints, self.restores = {}, set(), set()
