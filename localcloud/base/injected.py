"""What is to go wrong: the next so many times, counted when it happens, or for a while."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

How = TypeVar("How")


@dataclass(frozen=True)
class _Left(Generic[How]):
    how: How
    times: int | None
    until: datetime | None = None

    @property
    def over(self) -> bool:
        return self.until is not None and self.until <= datetime.now(UTC)


class Injected(Generic[How]):
    """By what it happens to (an action, a kind of event): how it goes wrong, and how often yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[str, _Left[How]] = {}

    def set(self, what: str, how: How, times: int | None, seconds: float | None = None) -> None:
        """The next `times` within `seconds` go wrong like this; None: all, and for ever; 0 times takes it back."""
        until = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
        with self._lock:
            if times == 0:
                self._left.pop(what, None)
            else:
                self._left[what] = _Left(how, times, until)

    def take(self, what: str) -> How | None:
        """How this one goes wrong, counted as happened; None when it goes well."""
        with self._lock:
            left = self._left.get(what)
            if left is None:
                return None
            if left.over:
                del self._left[what]
                return None
            if left.times == 1:
                del self._left[what]
            elif left.times is not None:
                self._left[what] = replace(left, times=left.times - 1)
            return left.how

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._left.clear()

    def active(self) -> dict[str, tuple[How, int | None]]:
        """What still goes wrong: how, and how often yet (None: without end)."""
        with self._lock:
            return {what: (left.how, left.times) for what, left in self._left.items() if not left.over}

    def until(self, what: str) -> datetime | None:
        """When this goes well again whatever happens; None: there is no such time."""
        with self._lock:
            return self._left[what].until if what in self._left else None


class Lasting:
    """Whom a thing happens to, and until when (None: until it is cleared)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[str, datetime | None] = {}

    def set(self, who: str, seconds: float | None) -> None:
        """From now on, for so long; None: without end."""
        until = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
        with self._lock:
            self._until[who] = until

    def clear(self) -> None:
        """It happens to nobody any more."""
        with self._lock:
            self._until.clear()

    def active(self) -> dict[str, str | None]:
        """To whom it happens now, and until when."""
        with self._lock:
            present = datetime.now(UTC)
            return {
                who: until.isoformat() if until else None
                for who, until in self._until.items()
                if until is None or until > present
            }
