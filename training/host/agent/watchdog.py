"""Events that may end a host's work at any time: an interruption notice, the end of the lease, a shutdown."""

import logging
import subprocess
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from training.host.agent.deadlines.hold import held_until
from training.host.agent.deadlines.lease import Lease
from training.host.errors import HostTrouble
from training.host.metadata import InterruptionNotice, Metadata
from trainyard.core.model.yard.warm import warm_until
from trainyard.protocol.tags import Tag

LOOK_SECONDS = 5.0
TIME_TO_LEAVE = timedelta(seconds=90)
"""Time for the agent to end the program and upload its log after the end of the lease."""

logger = logging.getLogger(__name__)


class Watchdog(threading.Thread):
    """A thread that looks every 5 s. The agent reads `notice`, `pooled` (the run has ended, and the host waits for
    another one), `lease_over`, and `going_down`.

    The thread powers the host off when the lease ends, whatever the agent does. `held` is the end of a hold at the
    start; later the thread reads the tag.
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
        self.notice: InterruptionNotice | None = None
        self.pooled = False
        self.going_down = threading.Event()
        self._lease = lease
        self._held = held
        self._metadata = metadata
        self._power_off = power_off

    @property
    def lease(self) -> Lease:
        """The lease, or the hold if that is longer."""
        return self._lease.prolong(self._held)

    @property
    def lease_over(self) -> bool:
        return self.lease.is_over(datetime.now(UTC))

    def renew(self, lease: Lease) -> None:
        self._lease = lease
        logger.info("powers itself off at %s unless an order arrives", self.lease.until.isoformat())

    def run(self) -> None:
        pause = threading.Event()
        while not self.lease.is_over(datetime.now(UTC) - TIME_TO_LEAVE):
            self._look()
            pause.wait(LOOK_SECONDS)
        self._power_off(self.lease.reason)

    def _look(self) -> None:
        try:
            if self.notice is None:
                self._take(self._metadata.interruption_notice())
            self._note_hold(held_until({Tag.HOLD: self._metadata.tag(Tag.HOLD) or ""}))
            tags = {name: self._metadata.tag(name) for name in (Tag.POOL, Tag.RUN)}
            self.pooled = warm_until(tags) is not None
        except HostTrouble as trouble:
            logger.warning("cannot look for an interruption notice or a hold: %s", trouble.reason)

    def _note_hold(self, held: datetime | None) -> None:
        if held != self._held:
            self._held = held
            state = f"held until {held.isoformat()}" if held else "not held"
            logger.info(
                "%s: powers itself off at %s unless an order arrives", state, self.lease.until.isoformat()
            )

    def _take(self, notice: InterruptionNotice | None) -> None:
        if notice:
            logger.warning("interruption notice: %s at %s", notice.action, notice.at.isoformat())
        self.notice = notice


def power_off(reason: str) -> None:
    """Shut the machine down. AWS terminates a spot host, and stops or terminates others as their launch demanded."""
    logger.warning("powering off: %s", reason)
    subprocess.run(["systemctl", "poweroff"], check=True)
