"""The hardware of a host, as the real agent reads it from the kernel's log (training/host/health.py)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from simulation.hosts.agent.log import Log
from simulation.hosts.machine import Machine
from training.host.agent.deadlines.drain import Drain, drain_for_trouble
from training.host.health import BrokenHardware, Health


class MachineHealth(Health):
    """The faults in the log of a simulated kernel since the machine booted."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine, self._seen = machine, 0

    def reason_to_leave(self, log: Log, now: datetime) -> Drain | None:
        """Write new faults into the program's log. Return the reason to leave after a fatal one."""
        log.add(*self.look())
        return drain_for_trouble(BrokenHardware(self.fatal), now) if self.fatal else None

    def _messages(self) -> Iterable[str]:
        new = self._machine.kernel[self._seen :]
        self._seen += len(new)
        return new
