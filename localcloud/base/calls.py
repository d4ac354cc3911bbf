"""Counts of API calls by caller and action, taken when IAM checks a request and when a service asks for a retry."""

from __future__ import annotations

import contextvars
import threading
from collections import Counter
from typing import Any

RETRYABLE = "(retryable error)"
_counted: contextvars.ContextVar[tuple[str, str] | None] = contextvars.ContextVar(
    "call_counted", default=None
)


class Calls:
    """Counts by caller and action. The caller is a role name, or the ARN of a user or of the account's root."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def count(self, caller: str, action: str) -> None:
        with self._lock:
            self._counts[caller, action] += 1
        _counted.set((caller, action))

    def begins(self) -> None:
        """Mark the start of a request that is not counted yet."""
        _counted.set(None)

    def mark_retryable(self) -> None:
        """Move the current request to the count of retryable errors."""
        counted = _counted.get()
        if counted:
            caller, action = counted
            with self._lock:
                self._counts[counted] -= 1
                self._counts[caller, f"{action} {RETRYABLE}"] += 1
            _counted.set(None)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return all counts since the server started: {caller: {action: times}}."""
        counted: dict[str, dict[str, int]] = {}
        with self._lock:
            for (caller, action), times in sorted(self._counts.items()):
                if times:
                    counted.setdefault(caller, {})[action] = times
        return counted


calls = Calls()
