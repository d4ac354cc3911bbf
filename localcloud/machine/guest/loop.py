"""What units may ask of the loop that runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

Reply = Callable[[int, str], None]
"""Answers whoever asked: exit code and text."""


@dataclass(order=True)
class Timer:
    """Something that will be done at `at` (monotonic), unless cancelled."""

    at: float
    number: int
    then: Callable[[], None] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)


class Units(Protocol):
    """The units of the host."""

    def start_queued(self) -> None:
        """Start those that waited for another one's start or end."""

    def start_all(self, names: list[str], reply: Reply) -> None:
        """Start units by name, and what they require."""


class Manager(Protocol):
    """The init that a unit belongs to."""

    environment: dict[str, str]
    booted: float
    going_down: bool

    @property
    def units(self) -> Units: ...

    def print(self, text: str) -> None:
        """One line on the console."""

    def log(self, name: str, text: str) -> None:
        """A line about a unit, in its log and on the console."""

    def open_log(self, name: str, path: Path | None = None) -> int:
        """A descriptor whose lines reach the console and the unit's log, or the file at `path` instead."""

    def temporary(self, descriptor: int) -> int:
        """The same descriptor, closed at the loop's next turn."""

    def after(self, pause: float, then: Callable[[], None]) -> Timer:
        """Do it in `pause` seconds."""

    def notify_socket(self, name: str, receive: Callable[[str], None]) -> str:
        """The path of a new socket; `receive` gets what is sent to it."""
