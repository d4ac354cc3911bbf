"""When a program must leave, and how much time it has. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from training.host.agent.deadlines.lease import Lease
from training.host.errors import HostTrouble
from training.host.metadata import InterruptionNotice
from trainyard.protocol.signals import StopReason

GRACE = timedelta(seconds=90)
"""Time from SIGTERM to SIGKILL for a program that has to stop: agree on a step, save, leave."""
LAST_MOMENTS = timedelta(seconds=20)
"""Time for the agent between the program's end and the loss of the host, to upload the last checkpoint and the log. If
the interruption notice is too short for that, program and agent get half of it each."""
SHUTDOWN_GRACE = timedelta(seconds=60)
"""The boot unit gives the agent 90 s when the machine goes down."""
LEASE_GRACE = timedelta(seconds=45)
TERM_BEFORE_KILL = timedelta(seconds=5)
"""Time from SIGTERM to SIGKILL at the end of the grace, if SIGTERM was held back until then."""
FINISHED: Literal["finished"] = "finished"
"""The reason to leave for all programs except the chief's, when the chief's has finished."""
REASONS = {
    StopReason.INTERRUPTED: "interrupted: this host goes down",
    StopReason.ASKED: "asked: this attempt has ended",
    StopReason.LIMIT: "limit: the run's hours or dollars are used up",
    FINISHED: "finished: the chief's program has ended with 0",
}
"""The reasons to leave, as the program's log shows them."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Why a program has to leave, and when it is killed if it has not."""

    why: StopReason | Literal["finished"]
    kill_at: datetime
    trouble: HostTrouble | None = None

    @property
    def described(self) -> str:
        return REASONS.get(self.why, self.why)

    @property
    def stop_reason(self) -> StopReason:
        """The reason in the host's signal. A program that leaves because the chief's has finished was asked to."""
        return StopReason.ASKED if self.why == FINISHED else self.why


def order_to_leave(
    *,
    notice: InterruptionNotice | None,
    going_down: bool,
    stop_ordered: bool,
    deadline: datetime,
    lease: Lease,
    now: datetime,
) -> Drain | None:
    """Return why the program has to leave now, or None. The reason that leaves the least time comes first. `deadline`
    is when the run's hours or dollars are used up."""
    if notice:
        left = max(notice.at - now, timedelta(0))
        return Drain(StopReason.INTERRUPTED, now + max(left - LAST_MOMENTS, left / 2))
    if going_down:
        return Drain(StopReason.INTERRUPTED, now + SHUTDOWN_GRACE)
    if stop_ordered:
        return Drain(StopReason.ASKED, now + GRACE)
    if now >= deadline:
        return Drain(StopReason.LIMIT, now + GRACE)
    if lease.is_over(now):
        return Drain(StopReason.ASKED, now + LEASE_GRACE, HostTrouble(lease.reason))
    return None


def is_held(
    drain: Drain,
    now: datetime,
    *,
    handles_sigterm: bool,
    saves: bool,
    has_saved_since: bool,
    chief_has_left: bool,
) -> bool:
    """Return True if SIGTERM is to wait. A program without a handler for SIGTERM ends by it at once, and its work since
    the last checkpoint is lost. If the run `saves` checkpoints, the chief's program continues until its next checkpoint
    is uploaded, the others until the chief has left, and all of them at most until shortly before the end of the
    grace."""
    if handles_sigterm or not saves or drain.why is StopReason.HANGS or drain.trouble:
        return False
    return not (has_saved_since or chief_has_left) and now < drain.kill_at - TERM_BEFORE_KILL


def drain_hanging(now: datetime) -> Drain:
    """Return the reason to leave for a program that hangs. It may still save if its handler for SIGTERM works."""
    return Drain(StopReason.HANGS, now + GRACE)


def drain_for_trouble(trouble: HostTrouble, now: datetime) -> Drain:
    """Return the reason to leave if the agent cannot upload the program's work: more work would be lost, too."""
    return Drain(StopReason.ASKED, now + GRACE, trouble)
