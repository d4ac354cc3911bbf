"""How a program is parted with: its SIGTERM, at once or once it has saved again, and SIGKILL when its time is over."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from training.host.agent.deadlines.notice import Leaving, is_held
from training.host.program import ending

LOOK = timedelta(seconds=5)
"""How often a host asks whether the chief has left."""


class Program(Protocol):
    """As much of a program as is needed to part with it."""

    def hears(self) -> bool: ...

    def ask_to_leave(self) -> None: ...

    def kill(self) -> None: ...


@dataclass(slots=True)
class Parting:
    """Of a program that is to leave. `saves`: there is a checkpoint of the run; `saved` answers the last one;
    `chief_has_left` asks that of another host's program, `note` writes into the program's log."""

    program: Program
    leaving: Leaving
    saves: bool
    saved: Callable[[], object]
    chief_has_left: Callable[[], bool]
    note: Callable[[str], None]
    asked_at: datetime | None = None
    """When SIGTERM was sent."""
    heard: bool = False
    """The program had a handler for SIGTERM when it was sent."""
    killed: bool = False
    _hears: bool = field(init=False)
    _saved_before: object = field(init=False)
    _holds: bool = False
    _looked: datetime | None = None
    _chief_has_left: bool = False

    def __post_init__(self) -> None:
        self._hears, self._saved_before = self.program.hears(), self.saved()

    def turn(self, now: datetime) -> None:
        """To be called again and again until the program has ended."""
        if self.asked_at is None:
            if self._is_held(now):
                self._say_that_it_is_held()
            else:
                self.note(f"{ending.ASKING}: {self.leaving.in_words}")
                self.heard = self.program.hears()
                self.program.ask_to_leave()
                self.asked_at = now
        elif not self.killed and now >= self.leaving.kill_at:
            self.note("the program did not leave in time and is killed")
            self.program.kill()
            self.killed = True

    def _is_held(self, now: datetime) -> bool:
        if self.saves and not self._hears and (self._looked is None or now - self._looked >= LOOK):
            self._looked, self._chief_has_left = now, self.chief_has_left()
        return is_held(
            self.leaving,
            now,
            hears=self._hears,
            saves=self.saves,
            has_saved_since=self.saved() != self._saved_before,
            chief_has_left=self._chief_has_left,
        )

    def _say_that_it_is_held(self) -> None:
        if not self._holds:
            self.note(
                f"the program is to leave ({self.leaving.in_words}) and has no handler for SIGTERM: it goes on until "
                f"its next checkpoint is taken, {self.leaving.kill_at:%H:%M:%S} at the latest"
            )
            self._holds = True
