"""What runs on a machine, as the machine sees it."""

from __future__ import annotations

from typing import Protocol

from simulation.hosts.faults import DiskFull, ProgramEnds
from simulation.hosts.flow import Steps
from trainyard.protocol.orders import OrderKind


class Life(Protocol):
    """What runs on a machine: an agent, or less."""

    def live(self) -> Steps: ...

    def look(self) -> None:
        """The metadata service may say something new."""
        ...

    def go_down(self) -> None:
        """SIGTERM, when the machine goes down."""
        ...

    @property
    def is_down(self) -> bool:
        """Whether nothing need be waited for any more."""
        ...

    def order(self, word: OrderKind, run: str, attempt: int) -> bool:
        """Whether an agent took it."""
        ...

    def ordered(self, run: str) -> None:
        """An order for the hosts of that run stands in the bucket."""
        ...

    def trouble(self, fault: ProgramEnds | DiskFull) -> None: ...

    def hurry(self) -> None:
        """The host was cut off, and is not any more."""
        ...
