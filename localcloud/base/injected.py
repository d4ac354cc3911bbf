"""What is to go wrong the next so many times: set beforehand, counted when it happens."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Generic, TypeVar

How = TypeVar("How")


@dataclass(frozen=True)
class _Left(Generic[How]):
    how: How
    times: int | None


class Injected(Generic[How]):
    """By what it happens to (an action, a kind of event): how it goes wrong, and how often yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[str, _Left[How]] = {}

    def set(self, what: str, how: How, times: int | None) -> None:
        """The next `times` go wrong like this; None: all until it is taken back; 0 takes it back."""
        with self._lock:
            if times == 0:
                self._left.pop(what, None)
            else:
                self._left[what] = _Left(how, times)

    def take(self, what: str) -> How | None:
        """How this one goes wrong, counted as happened; None when it goes well."""
        with self._lock:
            left = self._left.get(what)
            if left is None:
                return None
            if left.times == 1:
                del self._left[what]
            elif left.times is not None:
                self._left[what] = _Left(left.how, left.times - 1)
            return left.how

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._left.clear()

    def active(self) -> dict[str, tuple[How, int | None]]:
        """What still goes wrong: how, and how often yet (None: without end)."""
        with self._lock:
            return {what: (left.how, left.times) for what, left in self._left.items()}
