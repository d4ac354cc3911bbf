"""The context of an attempt: its cluster, its job, and the host that it runs on."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from training.host import orders
from training.host.account import Account
from training.host.agent.deadlines.drain import (
    Drain,
    order_to_leave,
)
from training.host.agent.life import Peers
from training.host.agent.watchdog import Watchdog
from training.host.bucket import Bucket
from training.host.checkpoints.choice import LastCheckpoint
from training.host.container.inside import Inside
from training.host.disk import Disk
from training.host.metadata import Identity
from training.host.paths import Paths
from trainyard.core.model.job import Job
from trainyard.protocol.cluster import Assignment, Cluster
from trainyard.protocol.orders import OrderKind
from trainyard.protocol.signals import Signal


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """Everything that an attempt uses but does not own."""

    cluster: Cluster
    assignment: Assignment
    job: Job
    inside: Inside | None
    """The program's container; None for a program that runs with the hosts' Python."""
    account: Account
    paths: Paths
    bucket: Bucket
    peers: Peers
    """The reports that the hosts of the gang exchange."""
    identity: Identity
    watchdog: Watchdog
    disk: Disk
    send: Callable[[Signal], None]
    note_checkpoint: Callable[[LastCheckpoint], None]
    """Saves the last whole checkpoint of the bucket in the agent's state."""
    ssm: Callable[[], Any]
    """Creates a client of Systems Manager with the run's credentials."""

    def order_to_leave(self) -> Drain | None:
        """Return why the program has to leave now, or None."""
        stop = orders.latest(OrderKind.STOP, self.paths)
        return order_to_leave(
            notice=self.watchdog.notice,
            going_down=self.watchdog.going_down.is_set(),
            stop_ordered=self.watchdog.pooled
            or bool(stop and stop.run == self.cluster.run and stop.attempt >= self.cluster.attempt),
            deadline=self.cluster.deadline,
            lease=self.watchdog.lease,
            now=datetime.now(UTC),
        )
