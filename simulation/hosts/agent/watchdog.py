"""Anything that may end a host's work at any time: an interruption notice, the lease, a hold
(training/host/agent/watchdog.py).

The real watchdog polls the metadata every 5 s; here the machine calls `look` after a change.
"""

from collections.abc import Callable
from datetime import datetime

from simulation.hosts.flow import Sleep, Steps
from simulation.hosts.machine import Machine
from training.host.agent.deadlines.hold import held_until
from training.host.agent.deadlines.lease import Lease
from training.host.agent.watchdog import TIME_TO_LEAVE
from training.host.metadata import InterruptionNotice
from trainyard.core.model.yard.warm import warm_until


class Watchdog:
    """Watches for the end of a host's work.

    `changed` is called for an interruption notice and at the end of the lease; `leave` shuts the host down.
    """

    def __init__(
        self,
        machine: Machine,
        lease: Lease,
        *,
        changed: Callable[[], None],
        leave: Callable[[str], Steps],
    ) -> None:
        self.notice: InterruptionNotice | None = None
        self.pooled = False
        self._machine = machine
        self._lease = lease
        self._held: datetime | None = None
        self._changed = changed
        self._leave = leave
        self.look()
        self._flow = machine.flow(self._watch(), f"watchdog {machine.instance}")

    @property
    def lease(self) -> Lease:
        return self._lease.prolong(self._held)

    @property
    def lease_over(self) -> bool:
        return self.lease.is_over(self._machine.now())

    def renew(self, lease: Lease) -> None:
        self._lease = lease
        self._flow.wake()

    def look(self) -> None:
        metadata = self._machine.host.metadata
        at = metadata.interruption_notice()
        if at and not self.notice:
            self._machine.note("sees an interruption notice", at=at.isoformat())
            self.notice = InterruptionNotice("terminate", at)
            self._changed()
        tags = metadata.tags()
        if warm_until(tags) and not self.pooled:
            self._machine.note("is kept for another run")
            self.pooled = True
            self._changed()
        held = held_until(tags)
        if held != self._held:
            self._held = held
            self._flow.wake()

    def _watch(self) -> Steps:
        while True:
            left = (self.lease.until - self._machine.now()).total_seconds()
            if left > 0:
                yield Sleep(left)
                continue
            self._changed()
            left += TIME_TO_LEAVE.total_seconds()
            if left <= 0:
                break
            yield Sleep(left)
        yield from self._leave(self.lease.reason)
