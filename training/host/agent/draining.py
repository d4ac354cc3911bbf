"""Drain a program: send SIGTERM, at once or after its next checkpoint, and SIGKILL when its time is over."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from training.host.agent.deadlines.drain import Drain, is_held
from training.host.program import ending

LOOK = timedelta(seconds=5)
"""Interval at which a host checks if the chief has left."""


class Program(Protocol):
    """The part of a program that draining needs."""

    def handles_sigterm(self) -> bool: ...

    def ask_to_leave(self) -> None: ...

    def kill(self) -> None: ...


@dataclass(slots=True)
class Draining:
    """The draining of one program."""

    program: Program
    drain: Drain
    saves: bool
    """True if the run has a checkpoint."""
    saved: Callable[[], object]
    """Returns the last checkpoint."""
    chief_has_left: Callable[[], bool]
    note: Callable[[str], None]
    """Writes a line into the program's log."""
    asked_at: datetime | None = None
    """When SIGTERM was sent."""
    had_handler: bool = False
    """True if the program had a handler for SIGTERM when it was sent."""
    killed: bool = False
    _handles_sigterm: bool = field(init=False)
    _saved_before: object = field(init=False)
    _holds: bool = False
    _looked: datetime | None = None
    _chief_has_left: bool = False

    def __post_init__(self) -> None:
        self._handles_sigterm, self._saved_before = self.program.handles_sigterm(), self.saved()

    def turn(self, now: datetime) -> None:
        """Send the signals that are due. Call it repeatedly until the program has ended."""
        if self.asked_at is None:
            if self._is_held(now):
                self._note_hold_back()
            else:
                self.note(f"{ending.LEAVE_REQUEST}: {self.drain.described}")
                self.had_handler = self.program.handles_sigterm()
                self.program.ask_to_leave()
                self.asked_at = now
        elif not self.killed and now >= self.drain.kill_at:
            self.note("the program did not leave in time and is killed")
            self.program.kill()
            self.killed = True

    def _is_held(self, now: datetime) -> bool:
        if self.saves and not self._handles_sigterm and (self._looked is None or now - self._looked >= LOOK):
            self._looked, self._chief_has_left = now, self.chief_has_left()
        return is_held(
            self.drain,
            now,
            handles_sigterm=self._handles_sigterm,
            saves=self.saves,
            has_saved_since=self.saved() != self._saved_before,
            chief_has_left=self._chief_has_left,
        )

    def _note_hold_back(self) -> None:
        if not self._holds:
            self.note(
                f"the program has to leave ({self.drain.described}) and has no handler for SIGTERM: it continues until "
                f"its next checkpoint is uploaded, {self.drain.kill_at:%H:%M:%S} at the latest"
            )
            self._holds = True
