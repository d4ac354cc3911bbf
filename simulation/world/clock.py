"""The wall clock of this process: the virtual one of the world that runs."""

from __future__ import annotations

from datetime import datetime

import time_machine

from simulation.world.world import BEGINNING, World


class Clock:
    """`time.time`, `datetime.now` and their like answer the world's time, from the first world on."""

    def __init__(self) -> None:
        self._travel: time_machine.travel | None = None
        self._at: time_machine.Traveller | None = None
        self._now = BEGINNING

    def follow(self, world: World) -> None:
        """From now on the time is that world's."""
        if self._at is None:
            self._travel = time_machine.travel(world.now, tick=False)
            self._at = self._travel.start()
        self._at.move_to(world.now)
        self._now = world.now
        world.on_time.append(self._move)

    def leave(self) -> None:
        """The time is the machine's again."""
        if self._travel is not None:
            self._travel.stop()
        self._travel = self._at = None

    def _move(self, now: datetime) -> None:
        if self._at is not None:
            self._at.shift(now - self._now)  # move_to would set the process's time zone each time
            self._now = now


CLOCK = Clock()
