"""Hosts without training: builders, dev hosts, generalized hosts, hosts launched by hand."""

from __future__ import annotations

import math
from datetime import datetime

from simulation.hosts.agent.watchdog import Watchdog
from simulation.hosts.faults import Trouble
from simulation.hosts.flow import Sleep, Steps
from simulation.hosts.machine import Machine
from training.host.agent.tags import lease_of
from training.host.metadata import Identity
from trainyard.protocol.orders import OrderKind
from trainyard.protocol.tags import Tag


class Quiet:
    """An agent without a run. A host of the yard still ends with its lease."""

    is_down = True

    def __init__(self, machine: Machine, identity: Identity) -> None:
        self._machine = machine
        self._watchdog: Watchdog | None = None
        if Tag.LEASE in identity.tags:
            lease = lease_of(identity, now=machine.now())
            self._watchdog = Watchdog(machine, lease, changed=lambda: None, leave=self._leave)

    def live(self) -> Steps:
        yield Sleep()

    def look(self) -> None:
        if self._watchdog:
            self._watchdog.look()

    def go_down(self) -> None:
        pass

    def hurry(self) -> None:
        pass

    def order(self, kind: OrderKind, run: str, attempt: int) -> bool:
        """Refuse the order, since the agent is not active."""
        return False

    def ordered(self, run: str) -> None:
        pass

    def trouble(self, fault: Trouble) -> None:
        pass

    def _leave(self, reason: str) -> Steps:
        self._machine.power_off(reason)
        yield 0.0


class Builder(Quiet):
    """A base image without an agent. Its user data ends the host at the end of its lease, to the minute."""

    def __init__(self, machine: Machine, identity: Identity) -> None:
        self._machine = machine
        self._watchdog = None
        self._ends = identity.tags.get(Tag.LEASE)

    def live(self) -> Steps:
        if self._ends is None:
            yield Sleep()
            return
        left = (datetime.fromisoformat(self._ends) - self._machine.now()).total_seconds()
        yield max(0.0, (math.trunc(left / 60) + 1) * 60.0)
        self._machine.power_off("its lease is over (user data)")


class Bare(Quiet):
    """A host without the yard's software, whatever its tags are."""

    def __init__(self, machine: Machine, identity: Identity) -> None:
        self._machine = machine
        self._watchdog = None
