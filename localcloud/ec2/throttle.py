"""Calls that are made to fail: the next so many requests of an action answer an error instead of being done."""

from __future__ import annotations

import threading
from dataclasses import dataclass

MESSAGES = {"RequestLimitExceeded": "Request limit exceeded.", "Unavailable": "The server is overloaded."}

_lock = threading.Lock()
_faults: dict[str, Fault] = {}


@dataclass(frozen=True)
class Fault:
    """The error an action answers, and how many times yet."""

    code: str
    message: str
    times: int


def throw(action: str, code: str, times: int) -> None:
    """The next `times` requests of this EC2 action fail with `code`; 0 takes it back."""
    with _lock:
        if times > 0:
            _faults[action] = Fault(code, MESSAGES.get(code, "Injected fault."), times)
        else:
            _faults.pop(action, None)


def clear() -> None:
    """Nothing is made to fail any more."""
    with _lock:
        _faults.clear()


def thrown(action: str) -> Fault | None:
    """The error this request must answer, counted as answered; None when it may go on."""
    with _lock:
        fault = _faults.get(action)
        if fault is None:
            return None
        if fault.times > 1:
            _faults[action] = Fault(fault.code, fault.message, fault.times - 1)
        else:
            del _faults[action]
        return fault


def standing() -> dict[str, int]:
    """Which actions still fail, and how many times."""
    with _lock:
        return {f"{action} {fault.code}": fault.times for action, fault in _faults.items()}
