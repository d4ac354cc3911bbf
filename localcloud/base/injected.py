"""Injected faults that apply a number of times, for a period, or until they are cleared."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

How = TypeVar("How")


@dataclass(frozen=True)
class _Remaining(Generic[How]):
    how: How
    times: int | None
    until: datetime | None = None

    @property
    def over(self) -> bool:
        return self.until is not None and self.until <= datetime.now(UTC)


class Injected(Generic[How]):
    """Faults by target, which is an action or a kind of event."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._remaining: dict[str, _Remaining[How]] = {}

    def set(self, what: str, how: How, times: int | None, seconds: float | None = None) -> None:
        """Fail the next `times` uses of `what` within `seconds`.

        None means without limit; 0 times removes the fault.
        """
        until = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
        with self._lock:
            if times == 0:
                self._remaining.pop(what, None)
            else:
                self._remaining[what] = _Remaining(how, times, until)

    def take(self, what: str) -> How | None:
        """Return the fault for this use and count it, or None if no fault applies."""
        with self._lock:
            left = self._remaining.get(what)
            if left is None:
                return None
            if left.over:
                del self._remaining[what]
                return None
            if left.times == 1:
                del self._remaining[what]
            elif left.times is not None:
                self._remaining[what] = replace(left, times=left.times - 1)
            return left.how

    def clear(self) -> None:
        with self._lock:
            self._remaining.clear()

    def active(self) -> dict[str, tuple[How, int | None]]:
        """Return the active faults, each with the remaining number of times (None: unlimited)."""
        with self._lock:
            return {what: (left.how, left.times) for what, left in self._remaining.items() if not left.over}

    def until(self, what: str) -> datetime | None:
        """Return when the fault of `what` expires, or None if it has no end time."""
        with self._lock:
            return self._remaining[what].until if what in self._remaining else None


class Lasting:
    """Targets affected by a fault, each with its end time (None: until cleared)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[str, datetime | None] = {}

    def set(self, who: str, seconds: float | None) -> None:
        """Affect `who` for `seconds`, or until cleared if None."""
        until = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
        with self._lock:
            self._until[who] = until

    def clear(self) -> None:
        with self._lock:
            self._until.clear()

    def active(self) -> dict[str, str | None]:
        """Return the affected targets and their end times."""
        with self._lock:
            present = datetime.now(UTC)
            return {
                who: until.isoformat() if until else None
                for who, until in self._until.items()
                if until is None or until > present
            }
