"""The end of a gang whose chief has finished: every other host uploads its files before any host ends.

The chief's host reports that the gang closes. Another host that still runs its program then asks the program to leave,
uploads, and reports that. The chief's host waits for it before it sends `finished`, the signal that ends all hosts.
"""

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta

from training.host.agent.deadlines.drain import FINISHED, Drain
from training.host.agent.life import Peers, PeerState, StillTraining, has_ended
from training.host.periodic import Repeat
from trainyard.protocol.cluster import Assignment, Cluster, Role

LOOK_SECONDS = 5.0
"""Interval at which a host checks if the chief has finished, and reports that it is still uploading."""
WAIT_SECONDS = 2.0
SILENT_SECONDS = 60.0
"""The chief does not wait for a host that has reported nothing new for this long."""
GRACE = timedelta(seconds=60)
"""Time for a program to end by itself after the chief's program has finished."""
TERM_GRACE = timedelta(seconds=30)
"""Time from SIGTERM to SIGKILL for a program that only serves the chief's."""


@dataclass(slots=True)
class Closing:
    """One host's part in the end of its gang. `note` writes a line into the program's log."""

    cluster: Cluster
    assignment: Assignment
    peers: Peers
    note: Callable[[str], None]
    _: KW_ONLY
    _closes_at: datetime | None = None
    _looking: Repeat = field(init=False)

    def __post_init__(self) -> None:
        self._looking = Repeat("closing", lambda _: self._look(), every=LOOK_SECONDS)

    def begin(self) -> None:
        """Start to check if the chief has finished. An evaluator needs no check: it ends by itself, after the chief."""
        if not self.assignment.is_chief and self.assignment.role is not Role.EVALUATOR:
            self._looking.start()

    def report_closing(self) -> None:
        """Report, on the chief's host, that its program and those that train with it have finished."""
        if self.assignment.is_chief:
            self.peers.report_closing(datetime.now(UTC))

    def drain(self) -> Drain | None:
        """Return why this host's program has to leave; None while the chief's program needs it."""
        now = datetime.now(UTC)
        if self._closes_at is None:
            return None
        if self.cluster.serves(self.assignment):
            return Drain(FINISHED, now + TERM_GRACE)
        return Drain(FINISHED, now + TERM_GRACE) if now >= self._closes_at + GRACE else None

    def has_finished(self) -> bool:
        """Return True if the chief has finished, so that the end of this host's program changes nothing."""
        if self.assignment.is_chief:
            return False
        state = self.peers.state_of(self.cluster.chief)
        return state is not None and state.closing

    def report_uploaded(self) -> None:
        """Report, on any host except the chief's, that all files of its program are in the bucket."""
        if self.assignment.is_chief:
            return
        if self._looking.is_alive():
            self._looking.end()
        self.peers.report_uploaded(datetime.now(UTC))

    def wait(self, has_to_end: Callable[[], str | None]) -> None:
        """Wait, on the chief's host, until the others have uploaded or this host has to end."""
        still = StillTraining(time.monotonic(), is_over=_has_uploaded, idle_seconds=SILENT_SECONDS)
        said: tuple[str, ...] = ()
        while waits := still.among(self._others(), time.monotonic()):
            if reason := has_to_end():
                self.note(f"not waiting any more for the files of {', '.join(waits)}: {reason}")
                return
            if waits != said:
                self.note(f"waiting until the files of {', '.join(waits)} are uploaded")
                said = waits
            time.sleep(WAIT_SECONDS)

    def _others(self) -> dict[str, PeerState | None]:
        others = [each for each in self.cluster.assignments if each is not self.assignment]
        states = self.peers.states_of(others)
        evaluators = {each.instance for each in self.cluster.evaluators}
        return {host: state for host, state in states.items() if host not in evaluators or has_ended(state)}

    def _look(self) -> None:
        if self._closes_at is None and self.has_finished():
            self._closes_at = datetime.now(UTC)
        if self._closes_at:
            self.peers.repeat_report(datetime.now(UTC))


def _has_uploaded(state: PeerState | None) -> bool:
    return state is not None and state.uploaded
