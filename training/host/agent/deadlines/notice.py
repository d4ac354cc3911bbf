"""When a program must leave, and how long it has for it. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from training.host.agent.deadlines.lease import Lease
from training.host.errors import HostTrouble
from training.host.metadata import Notice
from trainyard.protocol.signals import StopReason

GRACE = timedelta(seconds=90)
"""What a program gets from SIGTERM to SIGKILL when it is told to stop: agree on a step, save, leave."""
LAST_MOMENTS = timedelta(seconds=20)
"""What the agent needs after the program, before AWS takes the host: the last checkpoint and the log. Of a notice that
is too short for that each has half."""
SHUTDOWN_GRACE = timedelta(seconds=60)
"""The boot unit gives the agent 90 seconds when the machine goes down."""
LEASE_GRACE = timedelta(seconds=45)
TERM_BEFORE_KILL = timedelta(seconds=5)
"""What is left of the grace for SIGTERM, where it was held."""
FINISHED: Literal["finished"] = "finished"
"""Why another program than the chief's leaves: the chief's has finished."""
IN_WORDS = {
    StopReason.INTERRUPTED: "interrupted, this host goes away",
    StopReason.ASKED: "asked, this attempt is over",
    StopReason.LIMIT: "limit, the run's hours or dollars are used up",
    FINISHED: "finished, the chief's program has ended with 0",
}
"""Why, for whoever reads the program's log."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """Why the program is asked to leave, and when patience ends."""

    why: StopReason | Literal["finished"]
    kill_at: datetime
    trouble: HostTrouble | None = None

    @property
    def in_words(self) -> str:
        return IN_WORDS.get(self.why, self.why)

    @property
    def reported(self) -> StopReason:
        """Return what the host reports: the yard did not order it, if the chief's program has finished."""
        return StopReason.ASKED if self.why == FINISHED else self.why


def order_to_leave(
    *,
    notice: Notice | None,
    going_down: bool,
    stop_ordered: bool,
    deadline: datetime,
    lease: Lease,
    now: datetime,
) -> Leaving | None:
    """By AWS, by the machine, by an order, by the run's limits, by the lease: in this order, since the first leaves the
    least time. `deadline` is when the run's hours or dollars are used up, whoever else may know."""
    if notice:
        left = max(notice.at - now, timedelta(0))
        return Leaving(StopReason.INTERRUPTED, now + max(left - LAST_MOMENTS, left / 2))
    if going_down:
        return Leaving(StopReason.INTERRUPTED, now + SHUTDOWN_GRACE)
    if stop_ordered:
        return Leaving(StopReason.ASKED, now + GRACE)
    if now >= deadline:
        return Leaving(StopReason.LIMIT, now + GRACE)
    if lease.is_over(now):
        return Leaving(StopReason.ASKED, now + LEASE_GRACE, HostTrouble(lease.reason))
    return None


def is_held(
    leaving: Leaving, now: datetime, *, hears: bool, saves: bool, has_saved_since: bool, chief_has_left: bool
) -> bool:
    """Whether SIGTERM waits. A program that has no handler for it (that does not `hears`) ends at once, and what it did
    since its last save is lost; one that `saves` now and then may do so once more in the time that there is. So the
    chief's goes on until a checkpoint of it is taken, the others' until the chief has left, and all until shortly
    before the end of the grace."""
    if hears or not saves or leaving.why is StopReason.HANGS or leaving.trouble:
        return False
    return not (has_saved_since or chief_has_left) and now < leaving.kill_at - TERM_BEFORE_KILL


def leave_since_it_hangs(now: datetime) -> Leaving:
    """The program shows no sign of life; one that can still hear it may save."""
    return Leaving(StopReason.HANGS, now + GRACE)


def leave_for_trouble(trouble: HostTrouble, now: datetime) -> Leaving:
    """The agent cannot bring the program's work away: to go on would be to lose it."""
    return Leaving(StopReason.ASKED, now + GRACE, trouble)
