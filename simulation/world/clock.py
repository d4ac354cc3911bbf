"""The wall clock of this process, which shows the virtual time of the current world."""

from __future__ import annotations

from datetime import datetime

import time_machine

from simulation.world.world import BEGINNING, World


class Clock:
    """Makes `time.time`, `datetime.now` and similar functions return virtual time."""

    def __init__(self) -> None:
        self._travel: time_machine.travel | None = None
        self._at: time_machine.Traveller | None = None
        self._now = BEGINNING

    def follow(self, world: World) -> None:
        """Show the time of this world from now on."""
        if self._at is None:
            self._travel = time_machine.travel(world.now, tick=False)
            self._at = self._travel.start()
        self._at.move_to(world.now)
        self._now = world.now
        world.on_time.append(self._move)

    def leave(self) -> None:
        """Show the time of the machine again."""
        if self._travel is not None:
            self._travel.stop()
        self._travel = self._at = None

    def _move(self, now: datetime) -> None:
        if self._at is not None:
            self._at.shift(now - self._now)  # move_to would set the time zone of the process each time
            self._now = now


CLOCK = Clock()
