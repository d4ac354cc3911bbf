"""What may end a host's work at any time: AWS's notice, the dead man's switch, the machine going down."""

import logging
import subprocess
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from training.host.agent.deadlines.hold import held_until
from training.host.agent.deadlines.lease import Lease
from training.host.errors import HostTrouble
from training.host.metadata import Metadata, Notice
from trainyard.core.model.yard.warm import warm_until
from trainyard.protocol.tags import Tag

LOOK_SECONDS = 5.0
TIME_TO_LEAVE = timedelta(seconds=90)
"""What the agent gets to end the program and bring its log away once the lease is over."""

logger = logging.getLogger(__name__)


class Watchdog(threading.Thread):
    """Looks every five seconds. `notice`, `pooled` (the run is over, and the host is to wait for another), `lease_over`
    and `going_down` are read by the agent.

    Powering off when the lease is over needs nobody else. `held` is until when somebody held the host at the start;
    its tag is looked at ever after.
    """

    def __init__(
        self,
        metadata: Metadata,
        lease: Lease,
        power_off: Callable[[str], None],
        *,
        held: datetime | None = None,
    ) -> None:
        super().__init__(name="watchdog", daemon=True)
        self.notice: Notice | None = None
        self.pooled = False
        self.going_down = threading.Event()
        self._lease = lease
        self._held = held
        self._metadata = metadata
        self._power_off = power_off

    @property
    def lease(self) -> Lease:
        """As long as somebody holds the host, if that is longer."""
        return self._lease.held(self._held)

    @property
    def lease_over(self) -> bool:
        return self.lease.is_over(datetime.now(UTC))

    def renew(self, lease: Lease) -> None:
        self._lease = lease
        logger.info("powers itself off at %s unless told otherwise", self.lease.until.isoformat())

    def run(self) -> None:
        pause = threading.Event()
        while not self.lease.is_over(datetime.now(UTC) - TIME_TO_LEAVE):
            self._look()
            pause.wait(LOOK_SECONDS)
        self._power_off(self.lease.reason)

    def _look(self) -> None:
        try:
            if self.notice is None:
                self._take(self._metadata.notice())
            self._note_hold(held_until({Tag.HOLD: self._metadata.tag(Tag.HOLD) or ""}))
            tags = {name: self._metadata.tag(name) for name in (Tag.POOL, Tag.RUN)}
            self.pooled = warm_until(tags) is not None
        except HostTrouble as trouble:
            logger.warning("cannot look for an interruption notice or a hold: %s", trouble.reason)

    def _note_hold(self, held: datetime | None) -> None:
        if held != self._held:
            self._held = held
            state = f"held until {held.isoformat()}" if held else "held by nobody"
            logger.info(
                "%s: powers itself off at %s unless told otherwise", state, self.lease.until.isoformat()
            )

    def _take(self, notice: Notice | None) -> None:
        if notice:
            logger.warning("interruption notice: %s at %s", notice.action, notice.at.isoformat())
        self.notice = notice


def power_off(reason: str) -> None:
    """Ends the instance: AWS terminates a spot host and stops or terminates others as they were launched."""
    logger.warning("powering off: %s", reason)
    subprocess.run(["systemctl", "poweroff"], check=True)
