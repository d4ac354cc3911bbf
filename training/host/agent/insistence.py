"""The last uploads of a program that has ended, tried again for as long as S3's trouble may pass and the host may stay.

This is the one place where they are. What a program has left is on this host alone until then, so an outage of S3 costs
time, and never a training that has finished.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from training.host.agent.deadlines.notice import LAST_MOMENTS
from training.host.errors import HostTrouble

PAUSE_SECONDS = 5.0
NOTE_SECONDS = 60.0
EXTRAS_SECONDS = 600.0
"""The longest a host waits to upload what a run can do without: its log, its curve, TensorBoard's events."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Insistence:
    """`has_to_end` returns why the host may not wait any longer; `note` writes into the program's log; `disk_trouble`
    explains an error of the operating system."""

    has_to_end: Callable[[], str | None]
    note: Callable[[str], None]
    disk_trouble: Callable[[OSError], HostTrouble]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def bring(
        self, what: str, upload: Callable[[], None], *, most_seconds: float | None = None
    ) -> HostTrouble | None:
        """Upload until that succeeds; return the trouble that kept it from succeeding."""
        began, noted = self.clock(), None
        while trouble := self._trouble(what, upload):
            waited = self.clock() - began
            ends = self.has_to_end()
            if not trouble.passes or ends or (most_seconds is not None and waited >= most_seconds):
                return trouble
            if noted is None or self.clock() - noted >= NOTE_SECONDS:
                noted = self.clock()
                self.note(
                    f"{what} cannot be uploaded yet, for {waited:.0f} s, and is tried again: {trouble.reason}"
                )
            self.sleep(PAUSE_SECONDS)
        return None

    def _trouble(self, what: str, upload: Callable[[], None]) -> HostTrouble | None:
        try:
            upload()
        except HostTrouble as trouble:
            return trouble
        except OSError as error:
            return self.disk_trouble(error)
        except Exception as error:  # a fault of ours: the training has ended, and must not be repeated for it
            logger.exception("%s cannot be uploaded", what)
            return HostTrouble(f"the host agent itself failed: {error!r}", passes=False)
        return None


def why_it_has_to_end(
    *, notice_at: datetime | None, going_down: bool, asked_at: datetime | None, until: datetime, now: datetime
) -> str | None:
    """Return why a host may not wait any longer for S3. `until`: when the run's hours or dollars, or the host's lease,
    are used up; `asked_at`: when it was first seen that the attempt is to leave."""
    if going_down:
        return "this host goes down"
    if notice_at and now >= notice_at - LAST_MOMENTS / 2:
        return "AWS takes this host back"
    if asked_at and now >= asked_at + ASKED_GRACE:
        return "the run was asked to end"
    if now >= until:
        return "the run's hours or dollars are used up"
    return None


ASKED_GRACE = timedelta(seconds=90)
"""How long a host goes on trying after somebody has stopped the run."""
