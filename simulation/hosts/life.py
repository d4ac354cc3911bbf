"""The software that runs on a machine."""

from __future__ import annotations

from typing import Protocol

from simulation.hosts.faults import DiskFull, ProgramEnds
from simulation.hosts.flow import Steps
from trainyard.protocol.orders import OrderKind


class Life(Protocol):
    """The software that runs on a machine: an agent, or less."""

    def live(self) -> Steps: ...

    def look(self) -> None:
        """The metadata may have changed."""
        ...

    def go_down(self) -> None:
        """The machine shuts down (SIGTERM)."""
        ...

    @property
    def is_down(self) -> bool:
        """True if the shutdown has nothing more to wait for."""
        ...

    def order(self, kind: OrderKind, run: str, attempt: int) -> bool:
        """Take an order. Return False without an agent."""
        ...

    def ordered(self, run: str) -> None:
        """An order for the hosts of that run is in the bucket."""
        ...

    def trouble(self, fault: ProgramEnds | DiskFull) -> None: ...

    def hurry(self) -> None:
        """The network of the host is back."""
        ...
