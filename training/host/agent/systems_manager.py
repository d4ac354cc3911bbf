"""The Systems Manager agent beside ours: what keeps it from registering, and how it is made to try again.

No order waits for it (standing_order), but sessions, documents of people and images do. After calls that failed it
sleeps, longer each time; started anew it tries at once.
"""

import logging
import re
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

UNITS = ("amazon-ssm-agent.service", "snap.amazon-ssm-agent.amazon-ssm-agent.service")
"""As packages name it, and as Ubuntu's snap does."""
LOOK_SECONDS = 60.0
GIVEN_UP_AFTER = timedelta(minutes=15)
"""Of a host that has been up for longer the agent has registered, or never will; what it complains of then is other."""
DENIED = re.compile(r"is not authorized to perform: (ssm[a-z]*:[A-Za-z]+)")
LAST_BYTES = 16 * 1024

logger = logging.getLogger(__name__)


def complaints(log: Path, *, since: datetime) -> str:
    """The end of the agent's log of errors; empty where it complains of nothing, or did so before `since`."""
    try:
        if log.stat().st_mtime < since.timestamp():
            return ""
        return log.read_bytes()[-LAST_BYTES:].decode(errors="replace")
    except OSError:  # no trouble, no log
        return ""


def denial(log: Path, *, since: datetime) -> str | None:
    """What the agent may not do, as its log says. A log that was last written before `since` came with the image."""
    found = DENIED.findall(complaints(log, since=since))
    return str(found[-1]) if found else None


class SsmAgent:
    """`errors` is its log; `born` is when ours began."""

    def __init__(self, errors: Path, born: datetime, *, restart: Callable[[], None]) -> None:
        self._errors, self._born, self._since, self._restart = errors, born, born, restart

    def turn(self, now: datetime) -> None:
        """Once a minute: start it anew where it has complained since the last time of what may pass."""
        complains = complaints(self._errors, since=self._since) and not denial(
            self._errors, since=self._since
        )
        if complains and now - self._born < GIVEN_UP_AFTER:
            logger.warning("the Systems Manager agent is in trouble (%s): it is started anew", self._errors)
            self._restart()
        self._since = now


def restart() -> None:
    """Those of its units that run."""
    done = subprocess.run(["systemctl", "try-restart", *UNITS], capture_output=True, text=True, check=False)
    if done.returncode:
        logger.warning("it could not be started anew: %s", done.stderr.strip())
