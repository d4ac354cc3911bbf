"""A session's state, its caller, and the connection to its process."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from localcloud.machine.hypervisor import Execution

OVER = ("Terminated", "Failed")
IDLE = "Your session has been terminated for the following reasons: it was idle for too long"
TOO_LONG = "Your session has been terminated for the following reasons: it has reached its maximum duration"


@dataclass(frozen=True)
class Caller:
    """The caller of a request, and the endpoint's name that it used."""

    arn: str
    user_id: str
    host: str

    @property
    def name(self) -> str:
        """Return the prefix of session ids: the name of the user or of the role session."""
        return self.arn.rpartition(":")[2].rpartition("/")[2]


@dataclass(frozen=True)
class Session:
    """A session's current state. Changes create a new value."""

    id: str
    target: str
    document: str
    owner: str
    user_id: str
    reason: str
    started: float
    active: float
    idle_seconds: float
    longest_seconds: float | None
    longest_minutes: str
    token: str
    status: str = "Connecting"
    ending: str = ""
    asked_to_end: float | None = None
    ended: float | None = None

    @property
    def is_over(self) -> bool:
        return self.status in OVER

    def tags(self) -> dict[str, str]:
        """Return the tags of Session Manager, which policies name."""
        return {"aws:ssmmessages:session-id": self.user_id, "aws:ssmmessages:target-id": self.target}

    def overdue(self, now: float) -> str | None:
        """Return why the session must end now, or None."""
        if self.longest_seconds is not None and now - self.started > self.longest_seconds:
            return TOO_LONG
        return IDLE if now - self.active > self.idle_seconds else None


@dataclass
class Line:
    """The connection to a session's process."""

    control: socket.socket
    execution: Execution
    held: bool = False

    def send_order(self, files: Iterable[int] = (), **order: Any) -> bool:
        """Send an order. Return False if the process is gone, or frozen for too long."""
        try:
            socket.send_fds(self.control, [json.dumps(order).encode()], list(files), socket.MSG_DONTWAIT)
        except OSError:
            return False
        return True


def received(control: socket.socket) -> bytes:
    try:
        return control.recv(1 << 16)
    except OSError:
        return b""
