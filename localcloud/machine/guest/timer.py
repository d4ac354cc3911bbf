"""Timer units."""

from __future__ import annotations

import time

from localcloud.machine.guest.loop import Manager, Reply, Timer
from localcloud.machine.guest.units import UnitError, UnitFile


class TimerUnit:
    """A .timer unit with monotonic triggers. OnCalendar= is rejected."""

    def __init__(self, init: Manager, unit: UnitFile) -> None:
        if unit.all("Timer", "OnCalendar"):
            raise UnitError(
                f"{unit.name}: OnCalendar is not supported on the local cloud; use OnBootSec or OnUnitActiveSec"
            )
        self.init = init
        self.unit = unit
        self.name = unit.name
        self.state = "inactive"
        self.result = "success"
        self.exit_status = self.main_pid = 0
        self.invocation = ""
        self.transient = False
        self._next: Timer | None = None

    @property
    def shown_state(self) -> str:
        return self.state

    def start(self, reply: Reply) -> None:
        self.state = "active"
        uptime = time.monotonic() - self.init.booted
        delays = [self.unit.seconds("Timer", key, -1) for key in ("OnActiveSec", "OnUnitActiveSec")]
        delays += [max(0.0, self.unit.seconds("Timer", key, -1) - uptime)
                   for key in ("OnBootSec", "OnStartupSec") if self.unit.all("Timer", key)]  # fmt: skip
        due = [delay for delay in delays if delay >= 0]
        if due:
            self._next = self.init.after(min(due), self._fire)
        reply(0, "")

    def stop(self, reply: Reply) -> None:
        self.state = "inactive"
        if self._next is not None:
            self._next.cancelled = True
        reply(0, "")

    def reset_failed(self) -> None:
        pass

    def kill(self, number: int, whom: str) -> None:
        pass

    def reload(self, reply: Reply) -> None:
        reply(0, "")

    def process_ended(self, pid: int, code: int) -> None:
        pass

    def _fire(self) -> None:
        service = self.unit.get("Timer", "Unit", self.name.removesuffix(".timer") + ".service")
        self.init.units.start_all([service], lambda code, text: None)
        again = self.unit.seconds("Timer", "OnUnitActiveSec", -1)
        self._next = self.init.after(again, self._fire) if again > 0 else None
