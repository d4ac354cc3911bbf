"""What may end a host's work at any time: AWS's notice, the dead man's switch, the machine going down."""

import logging
import subprocess
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from training.host.errors import HostTrouble
from training.host.lease import Lease
from training.host.metadata import Metadata, Notice

LOOK_SECONDS = 5.0
TIME_TO_LEAVE = timedelta(seconds=90)
"""What the agent gets to end the program and bring its log away once the lease is over."""

logger = logging.getLogger(__name__)


class Sentinel(threading.Thread):
    """Looks every five seconds. `notice`, `lease_over` and `going_down` are read by the agent.

    Powering off when the lease is over needs nobody else.
    """

    def __init__(self, metadata: Metadata, lease: Lease, power_off: Callable[[str], None]) -> None:
        super().__init__(name="sentinel", daemon=True)
        self.notice: Notice | None = None
        self.lease = lease
        self.going_down = threading.Event()
        self._metadata = metadata
        self._power_off = power_off

    @property
    def lease_over(self) -> bool:
        return self.lease.is_over(datetime.now(UTC))

    def renew(self, lease: Lease) -> None:
        logger.info("powers itself off at %s unless told otherwise", lease.until.isoformat())
        self.lease = lease

    def run(self) -> None:
        pause = threading.Event()
        while not self.lease.is_over(datetime.now(UTC) - TIME_TO_LEAVE):
            if self.notice is None:
                self._look()
            pause.wait(LOOK_SECONDS)
        self._power_off(self.lease.reason)

    def _look(self) -> None:
        try:
            self.notice = self._metadata.notice()
        except HostTrouble as trouble:
            logger.warning("cannot look for an interruption notice: %s", trouble.reason)
        if self.notice:
            logger.warning("interruption notice: %s at %s", self.notice.action, self.notice.at.isoformat())


def power_off(reason: str) -> None:
    """Ends the instance: AWS terminates a spot host and stops or terminates others as they were launched."""
    logger.warning("powering off: %s", reason)
    subprocess.run(["systemctl", "poweroff"], check=True)
