"""Hosts that train nothing: a builder, one launched from an image, one that was generalized, one launched by hand."""

from __future__ import annotations

import math
from datetime import datetime

from simulation.hosts.agent.watchdog import Watchdog
from simulation.hosts.faults import DiskFull, ProgramEnds
from simulation.hosts.flow import Sleep, Steps
from simulation.hosts.machine import Machine
from training.host.agent.tags import lease_of
from training.host.metadata import Identity
from trainyard.protocol.orders import OrderKind
from trainyard.protocol.tags import Tag


class Quiet:
    """The agent keeps quiet; a host of the yard still ends with its lease."""

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

    def order(self, word: OrderKind, run: str, attempt: int) -> bool:
        """It has no presence: nobody takes an order."""
        return False

    def ordered(self, run: str) -> None:
        pass

    def trouble(self, fault: ProgramEnds | DiskFull) -> None:
        pass

    def _leave(self, reason: str) -> Steps:
        self._machine.power_off(reason)
        yield 0.0


class Builder(Quiet):
    """No agent of the yard watches a base image: its user data ends it with its lease, to the minute."""

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
    """Nothing of ours runs here, whatever its tags say."""

    def __init__(self, machine: Machine, identity: Identity) -> None:
        self._machine = machine
        self._watchdog = None
