"""Interfaces that units use: the loop that runs them, timers, and the other units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

Reply = Callable[[int, str], None]
"""Sends exit code and text to the client."""


@dataclass(order=True)
class Timer:
    """An action that runs at `at` (monotonic clock) unless cancelled."""

    at: float
    number: int
    then: Callable[[], None] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)


class Units(Protocol):
    """The units of the host."""

    def start_queued(self) -> None:
        """Start units whose dependencies have started or ended."""

    def start_all(self, names: list[str], reply: Reply) -> None:
        """Start units by name, and their requirements."""


class Manager(Protocol):
    """The init of a unit."""

    environment: dict[str, str]
    booted: float
    going_down: bool

    @property
    def units(self) -> Units: ...

    def print(self, text: str) -> None:
        """Print a line on the console."""

    def log(self, name: str, text: str) -> None:
        """Write a line about a unit to its log and the console."""

    def open_log(self, name: str, path: Path | None = None) -> int:
        """Return a descriptor whose lines reach the console and the unit's log, or the file at `path`."""

    def temporary(self, descriptor: int) -> int:
        """Return the descriptor and close it at the loop's next turn."""

    def after(self, pause: float, then: Callable[[], None]) -> Timer:
        """Call `then` after `pause` seconds."""

    def notify_socket(self, name: str, receive: Callable[[str], None]) -> str:
        """Return the path of a new socket. `receive` gets the messages that arrive on it."""
