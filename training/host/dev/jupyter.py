"""How JupyterLab of this host is, for whoever is to reach it."""

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
"""Of its log, for somebody who asks why."""


class Way(StrEnum):
    """`absent`: the image was baked without. `idle`: nobody has started it. `failed`: it dies whenever it starts."""

    SERVES = "serves"
    STARTS = "starts"
    IDLE = "idle"
    FAILED = "failed"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Jupyter:
    """`token` is empty unless it serves, `log` (its last lines) if it does."""

    way: Way
    port: int = PORT
    token: str = ""
    log: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def look(paths: Paths, unit_state: Callable[[], str]) -> Jupyter:
    """As it is now. Raises PermissionError to an account that is not its own."""
    if not paths.jupyter.exists():
        return Jupyter(Way.ABSENT)
    if (token := _token(paths)) and _answers(token):
        return Jupyter(Way.SERVES, token=token)
    ways = {"failed": Way.FAILED, "inactive": Way.IDLE}
    return Jupyter(ways.get(unit_state(), Way.STARTS), log=_last_lines(paths))


def wait(paths: Paths, seconds: float) -> Jupyter:
    """Once it serves, or never will; as it is, when the time is over. The agent may start it yet where nobody has."""
    ends = time.monotonic() + seconds
    while True:
        found = look(paths, unit_state)
        if found.way in (Way.SERVES, Way.FAILED, Way.ABSENT) or time.monotonic() >= ends:
            return found
        time.sleep(LOOK_SECONDS)


def unit_state() -> str:
    """As systemd calls it."""
    asked = ["systemctl", "is-active", UNIT]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def start() -> None:
    """Ask for it; nothing happens where it runs. Raises OSError, subprocess.CalledProcessError."""
    subprocess.run(["systemctl", "start", "--no-block", UNIT], check=True, capture_output=True, text=True)


def _token(paths: Paths) -> str:
    try:
        return paths.jupyter_token.read_text()
    except FileNotFoundError:
        return ""


def _answers(token: str) -> bool:
    """To this token: what else may have taken the port does not know it."""
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
