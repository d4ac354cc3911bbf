"""The state of JupyterLab on this host, for the command that connects to it."""

import http.client
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum

from training.host.dev import UNIT
from training.host.dev.serve import ADDRESS, PORT
from training.host.paths import Paths

LOOK_SECONDS = 0.3
ASK_SECONDS = 5.0
LAST_BYTES = 2000
"""Bytes of the end of its log that are returned."""


class Way(StrEnum):
    """The state of JupyterLab."""

    SERVES = "serves"
    STARTS = "starts"
    IDLE = "idle"
    """It was not started."""
    FAILED = "failed"
    """It ends whenever it is started."""
    ABSENT = "absent"
    """The image has no JupyterLab."""


@dataclass(frozen=True, slots=True)
class Jupyter:
    """JupyterLab on this host."""

    way: Way
    port: int = PORT
    token: str = ""
    """Empty unless it serves."""
    log: str = ""
    """The last lines of its log; empty if it serves."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def look(paths: Paths, unit_state: Callable[[], str]) -> Jupyter:
    """Return its present state. Raises PermissionError for accounts that may not read its token."""
    if not paths.jupyter.exists():
        return Jupyter(Way.ABSENT)
    if (token := _token(paths)) and _answers(token):
        return Jupyter(Way.SERVES, token=token)
    ways = {"failed": Way.FAILED, "inactive": Way.IDLE}
    return Jupyter(ways.get(unit_state(), Way.STARTS), log=_last_lines(paths))


def wait(paths: Paths, seconds: float) -> Jupyter:
    """Wait until it serves or cannot serve, at most `seconds`, and return its state."""
    ends = time.monotonic() + seconds
    while True:
        found = look(paths, unit_state)
        if found.way in (Way.SERVES, Way.FAILED, Way.ABSENT) or time.monotonic() >= ends:
            return found
        time.sleep(LOOK_SECONDS)


def unit_state() -> str:
    """Return the unit's state in systemd's words."""
    asked = ["systemctl", "is-active", UNIT]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def start() -> None:
    """Start the unit without waiting. Raises OSError, subprocess.CalledProcessError."""
    subprocess.run(["systemctl", "start", "--no-block", UNIT], check=True, capture_output=True, text=True)


def _token(paths: Paths) -> str:
    try:
        return paths.jupyter_token.read_text()
    except FileNotFoundError:
        return ""


def _answers(token: str) -> bool:
    """Return True if the server accepts this token, which another process on the port would not do."""
    connection = http.client.HTTPConnection(ADDRESS, PORT, timeout=ASK_SECONDS)
    try:
        connection.request("GET", "/api/status", headers={"Authorization": f"token {token}"})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _last_lines(paths: Paths) -> str:
    try:
        return paths.jupyter_log.read_bytes()[-LAST_BYTES:].decode(errors="replace")
    except FileNotFoundError:
        return ""
