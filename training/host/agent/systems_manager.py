"""The Systems Manager agent of the host: find out why it cannot register, and let it try again.

Orders do not depend on it (standing_order), but sessions, users' SSM documents, and images do. It pauses after failed
calls, longer each time. A restart lets it try again at once.
"""

import logging
import re
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

UNITS = ("amazon-ssm-agent.service", "snap.amazon-ssm-agent.amazon-ssm-agent.service")
"""Its unit in packages and in Ubuntu's snap."""
LOOK_SECONDS = 60.0
GIVEN_UP_AFTER = timedelta(minutes=15)
"""On a host that has been up for longer, the agent has registered or never will. Later errors have other causes."""
DENIED = re.compile(r"is not authorized to perform: (ssm[a-z]*:[A-Za-z]+)")
LAST_BYTES = 16 * 1024

logger = logging.getLogger(__name__)


def complaints(log: Path, *, since: datetime) -> str:
    """Return the end of the agent's error log; empty if the log has not changed since `since`."""
    try:
        if log.stat().st_mtime < since.timestamp():
            return ""
        return log.read_bytes()[-LAST_BYTES:].decode(errors="replace")
    except OSError:  # without errors there is no log
        return ""


def denial(log: Path, *, since: datetime) -> str | None:
    """Return the last action that was denied to the agent, or None. A log from before `since` came with the image."""
    found = DENIED.findall(complaints(log, since=since))
    return str(found[-1]) if found else None


class SsmAgent:
    """The Systems Manager agent. `errors` is its error log, `born` the start of the host agent."""

    def __init__(self, errors: Path, born: datetime, *, restart: Callable[[], None]) -> None:
        self._errors, self._born, self._since, self._restart = errors, born, born, restart

    def turn(self, now: datetime) -> None:
        """Restart it if it has logged an error that may pass since the last turn. Call it once a minute."""
        complains = complaints(self._errors, since=self._since) and not denial(
            self._errors, since=self._since
        )
        if complains and now - self._born < GIVEN_UP_AFTER:
            logger.warning("the Systems Manager agent logs errors (%s): restarting it", self._errors)
            self._restart()
        self._since = now


def restart() -> None:
    """Restart its unit, if it runs."""
    done = subprocess.run(["systemctl", "try-restart", *UNITS], capture_output=True, text=True, check=False)
    if done.returncode:
        logger.warning("the Systems Manager agent could not be restarted: %s", done.stderr.strip())
