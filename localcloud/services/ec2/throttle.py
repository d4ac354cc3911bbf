"""Calls that are made to fail: the next so many requests of an action answer an error instead of being done."""

from __future__ import annotations

from dataclasses import dataclass

from localcloud.base.injected import Upcoming

MESSAGES = {"RequestLimitExceeded": "Request limit exceeded.", "Unavailable": "The server is overloaded."}


@dataclass(frozen=True)
class Fault:
    """The error an action answers."""

    code: str
    message: str


_faults: Upcoming[Fault] = Upcoming()


def throw(action: str, code: str, times: int) -> None:
    """The next `times` requests of this EC2 action fail with `code`; 0 takes it back."""
    _faults.say(action, Fault(code, MESSAGES.get(code, "Injected fault.")), times)


def clear() -> None:
    """Nothing is made to fail any more."""
    _faults.clear()


def thrown(action: str) -> Fault | None:
    """The error this request must answer, counted as answered; None when it may go on."""
    return _faults.happen(action)


def standing() -> dict[str, int | None]:
    """Which actions still fail, and how many times."""
    return {f"{action} {fault.code}": times for action, (fault, times) in _faults.standing().items()}
