"""Retries of AWS calls that a run depends on, as long as the trouble may pass and the host may stay.

All fetches before a program starts and all uploads after its end are retried here. Until the uploads succeed, the
program's work exists only on this host. Therefore an outage of S3 costs time, but never a finished training.
"""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from training.host.agent.deadlines.drain import LAST_MOMENTS
from training.host.denials import Denials
from training.host.errors import AccessDenied, HostTrouble, Unreachable

LONGEST_PAUSE_SECONDS = 15.0
NOTE_SECONDS = 60.0
EXTRAS_SECONDS = 600.0
"""Time that a host retries uploads that a run does not depend on: its log, its curve, TensorBoard's events."""
FINISHED_DENIED_SECONDS = 600.0
"""The shortest time for which a host retries the upload of a finished program's results without the permission."""

logger = logging.getLogger(__name__)
Value = TypeVar("Value")


def is_passing(trouble: HostTrouble) -> bool:
    """Return True if the trouble may pass on this host."""
    return trouble.passes


def is_unreachable(trouble: HostTrouble) -> bool:
    """Return True if a service does not answer. Before a program starts, every other trouble is reported at once."""
    return isinstance(trouble, Unreachable)


@dataclass(slots=True, kw_only=True)
class Retries:
    """Rules for the retries of a call until it succeeds, its trouble cannot pass, or the host has to end."""

    has_to_end: Callable[[], str | None]
    """Returns why the host may not wait any longer, or None."""
    until: Callable[[], datetime]
    """Returns the latest end of the host, for the log."""
    note: Callable[[str], None]
    """Writes a line into the run's log."""
    disk_trouble: Callable[[OSError], HostTrouble]
    """Explains an error of the operating system."""
    passes: Callable[[HostTrouble], bool] = is_passing
    denied_seconds: float | None = None
    """How long a denial is doubted (denials.py)."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def get(self, what: str, act: Callable[[], Value], *, most_seconds: float | None = None) -> Value:
        """Return the result of `act` once it succeeds. Raises its last trouble if it may not be retried any more."""
        began, since, noted, tries = self.clock(), datetime.now(UTC), float("-inf"), 0
        denials = Denials(self.denied_seconds, self.clock)
        while True:
            try:
                value = act()
            except HostTrouble as trouble:
                now = self.clock()
                over = most_seconds is not None and now - began >= most_seconds
                if over or self._ends_tries(trouble, denials) or self.has_to_end():
                    raise
                if now - noted >= NOTE_SECONDS:
                    noted = now
                    self.note(self._line(what, since, trouble, denials, most_seconds))
                tries += 1
                self.sleep(random.uniform(0, min(LONGEST_PAUSE_SECONDS, 2.0**tries)))
            else:
                if tries:
                    self.note(f"{what}: succeeded after {self.clock() - began:.0f} s")
                return value

    def upload(
        self, what: str, upload: Callable[[], None], *, most_seconds: float | None = None
    ) -> HostTrouble | None:
        """Upload with retries. Return the last trouble if the upload did not succeed."""

        def try_upload() -> None:
            try:
                upload()
            except OSError as error:
                raise self.disk_trouble(error) from error
            except HostTrouble:
                raise
            except Exception as error:  # our own bug: the finished training must not be repeated for it
                logger.exception("%s failed", what)
                raise HostTrouble(f"the host agent itself failed: {error!r}", passes=False) from error

        try:
            self.get(f"uploading its {what}", try_upload, most_seconds=most_seconds)
        except HostTrouble as trouble:
            return trouble
        return None

    def _ends_tries(self, trouble: HostTrouble, denials: Denials) -> bool:
        if isinstance(trouble, AccessDenied):
            return denials.ends_tries(trouble)
        denials.clear()
        return not self.passes(trouble)

    def _line(
        self, what: str, since: datetime, trouble: HostTrouble, denials: Denials, most_seconds: float | None
    ) -> str:
        until = self.until()
        for seconds in (most_seconds, denials.grace if isinstance(trouble, AccessDenied) else None):
            if seconds is not None:
                until = min(until, since + timedelta(seconds=seconds))
        return (
            f"{what} has failed since {since:%H:%M:%S} UTC: {trouble.reason}. This host tries again until "
            f"{until:%H:%M:%S} UTC at the latest, and is billed meanwhile"
        )


def patience_with_denials(ran_seconds: float) -> float:
    """Return how many seconds to retry the upload of a finished program's results without the permission.

    Only a user can add a permission, so the patience for an outage (the lease) would waste money. Training again would
    cost as much as the program's `ran_seconds`; waiting that long costs no more than it may save."""
    return max(FINISHED_DENIED_SECONDS, ran_seconds)


def reason_to_end(
    *, notice_at: datetime | None, going_down: bool, asked_at: datetime | None, until: datetime, now: datetime
) -> str | None:
    """Return why a host may not wait for S3 any longer, or None. `until` is when the run's limits or the host's lease
    end, `asked_at` when the host first saw the order to leave."""
    if going_down:
        return "this host goes down"
    if notice_at and now >= notice_at - LAST_MOMENTS / 2:
        return "AWS takes this host back"
    if asked_at and now >= asked_at + STOP_GRACE:
        return "the run was asked to end"
    if now >= until:
        return "the run's hours or dollars are used up"
    return None


STOP_GRACE = timedelta(seconds=90)
"""Time that a host still retries after the run was stopped."""
