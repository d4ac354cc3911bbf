"""A host in the warm pool: it wipes its disk, says so, and waits for a run that claims it
(training/host/pool/waiting.py)."""

from __future__ import annotations

from simulation.aws.endpoint.api import ServiceError
from simulation.hosts.agent.health import MachineHealth
from simulation.hosts.bucket import Unreachable
from simulation.hosts.faults import Late, SendsTwice, Trouble
from simulation.hosts.flow import Flow, Sleep, Steps
from simulation.hosts.machine import Machine
from training.host.metadata import Identity
from training.host.pool.waiting import GRACE, REPORT_SECONDS, wiped_event
from trainyard.core.model.yard.warm import warm_until
from trainyard.protocol.orders import OrderKind
from trainyard.protocol.tags import Tag


class Waiting:
    """An agent in the warm pool. `identity` has the tags with which its last run kept it."""

    is_down = True

    def __init__(self, machine: Machine, identity: Identity) -> None:
        self._machine, self._identity = machine, identity
        self._first = identity.tags[Tag.POOL]
        self._until = warm_until(identity.tags)
        self._main: Flow | None = None

    def live(self) -> Steps:
        self._main = self._machine.flow(self._work(), f"{self._machine.instance} waits in the pool")
        yield Sleep()

    def look(self) -> None:
        self._wake()

    def go_down(self) -> None:
        pass

    def hurry(self) -> None:
        self._wake()

    def order(self, kind: OrderKind, run: str, attempt: int) -> bool:
        return False

    def ordered(self, run: str) -> None:
        pass

    def trouble(self, fault: Trouble) -> None:
        pass

    def _wake(self) -> None:
        if self._main:
            self._main.wake()

    def _work(self) -> Steps:
        machine = self._machine
        yield from machine.stage("wipe")
        health = MachineHealth(machine)
        health.look()
        if health.fatal:
            reason = f"it cannot be wiped for another run: {health.fatal}"
            yield from self._send_wiped(reason)
            machine.power_off(reason)
            return
        yield machine.draw(machine.delays.wipe)
        machine.disk.wipe()
        machine.note("is wiped")
        yield from machine.stage("wipe", "after")
        while True:
            tags = machine.host.metadata.tags()
            if machine.host.metadata.interruption_notice():
                machine.power_off("EC2 reclaims it, and no run has claimed it")
                return
            until = warm_until(tags)
            if until is None:
                machine.note("is claimed from the warm pool", run=tags.get(Tag.RUN, ""))
                machine.begin_again()
                return
            left = (until + GRACE - machine.now()).total_seconds()
            if left <= 0:
                machine.power_off("its time in the warm pool is over, and no run has claimed it")
                return
            if tags[Tag.POOL] != self._first:
                yield Sleep(left)
                continue
            yield from self._send_wiped()
            yield Sleep(REPORT_SECONDS)

    def _send_wiped(self, reason: str | None = None) -> Steps:
        machine = self._machine
        fault = machine.inject("wiped", "before")
        if fault:
            yield fault.seconds if isinstance(fault, Late) else 0.0
        entry = wiped_event(self._identity, machine.now(), reason)
        for _ in range(2 if isinstance(fault, SendsTwice) else 1):
            try:
                machine.call("events", "put_events", Entries=[entry])
            except (ServiceError, Unreachable) as error:
                machine.note("cannot report that it is wiped", reason=str(error))
                return
        machine.note("sends wiped")
        machine.inject("wiped", "after")
