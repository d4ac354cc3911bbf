"""The software that runs on a machine."""

from __future__ import annotations

from typing import Protocol

from simulation.hosts.faults import Trouble
from simulation.hosts.flow import Steps
from trainyard.protocol.orders import OrderKind


class Life(Protocol):
    """The software that runs on a machine: an agent, or less."""

    def live(self) -> Steps: ...

    def look(self) -> None:
        """Read the metadata, which may have changed."""
        ...

    def go_down(self) -> None:
        """Handle SIGTERM when the machine shuts down."""
        ...

    @property
    def is_down(self) -> bool:
        """Return True if the shutdown has nothing more to wait for."""
        ...

    def order(self, kind: OrderKind, run: str, attempt: int) -> bool:
        """Take an order. Return False without an agent."""
        ...

    def ordered(self, run: str) -> None:
        """Handle a new order for the hosts of that run in the bucket."""
        ...

    def trouble(self, fault: Trouble) -> None: ...

    def hurry(self) -> None:
        """Handle that the network of the host is back."""
        ...
