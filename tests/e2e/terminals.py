"""Open terminals on hosts by the command."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.e2e.patience import PATIENCE
from tests.e2e.runs import Runs
from tests.e2e.users import words

ACCOUNT, PROMPT = ("ssm-user", "$ ") if os.geteuid() == 0 else ("root", "# ")
"""The account and the prompt of a session. Without root, hosts of a local cloud have only the account root."""


class Terminal:
    """A terminal of a user that runs the command."""

    def __init__(self, environment: Mapping[str, str], *given: str) -> None:
        self.pid, self.keys = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, words(*given), dict(environment))
        self.seen = ""

    def until(self, text: str) -> None:
        ends = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < ends, self.seen
            if select.select([self.keys], [], [], 0.1)[0]:
                self.seen += os.read(self.keys, 65536).decode(errors="replace")

    def type(self, line: str) -> None:
        os.write(self.keys, line.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.keys, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def is_raw(self) -> bool:
        return not termios.tcgetattr(self.keys)[3] & termios.ICANON

    def ended(self) -> int:
        """Return the exit code after reading the remaining output."""
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            with suppress(OSError):
                if select.select([self.keys], [], [], 0.1)[0]:
                    self.seen += os.read(self.keys, 65536).decode(errors="replace")
            pid, code = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.keys)
                return os.waitstatus_to_exitcode(code)
        raise AssertionError(f"the command does not end: {self.seen}")


def active(runs: Runs, host: str) -> list[Any]:
    filters = [{"key": "Target", "value": host}]
    found = runs.yard.session.client("ssm").describe_sessions(State="Active", Filters=filters)
    return list(found["Sessions"])
