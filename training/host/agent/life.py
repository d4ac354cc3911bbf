"""Signs that a host's program works, and the states that the hosts of a gang report to each other."""

import json
import logging
import shutil
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from training.host import processes
from training.host.account import Account
from training.host.bucket import Bucket
from training.host.disk import measure_below
from training.host.errors import HostTrouble
from training.host.paths import Paths
from training.host.program.process import Program
from training.host.program.silence import WORKING_GPU_PERCENT, Effort, NewLines
from training.host.program.tracebacks import AGENTS_OWN
from training.host.reporting import gpus
from training.host.reporting.outbox import Sender
from training.host.reporting.progress import Progress
from trainyard.protocol import keys
from trainyard.protocol.cluster import Assignment, Cluster
from trainyard.values.serialization import timestamp

REPORT_SECONDS = 150.0
"""Shortest interval between two reports that a host's program works."""
IDLE_SECONDS = 300.0
"""A host that has reported nothing for this long is not waited for. It looks once a minute, and reports arrive late."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Life:
    """Signs of life of one program. `has_gpus` is True if the driver shows the use of the GPUs."""

    paths: Paths
    account: Account
    progress: Progress
    has_gpus: bool
    lines: NewLines = field(default_factory=NewLines)
    _effort: Effort = field(default_factory=Effort)
    _gpu_looks: int = 0

    def take_line(self, line: str) -> None:
        """Count a line that the program has printed. The agent's own lines do not count."""
        if not line.startswith(AGENTS_OWN):
            self.lines.add(line)

    def signs(self, program: Program) -> Hashable:
        """Return a value that changes while the program works: its lines, reports, and files, and otherwise its use of
        processors and GPUs. Processors and GPUs do not count while a program reports steps, because a program may keep
        a processor busy while it hangs. They count after its last step, when it may export without reporting."""
        self._effort.look(time.monotonic(), program.processor_time() / processes.TICKS)
        shown = (self.lines.count, self.progress.length, self._files())
        if self.progress.reports and not self.progress.is_at_its_end:
            return shown
        self._gpu_looks += self._gpus_work()
        return (*shown, self._effort.looks, self._gpu_looks)

    def _files(self) -> tuple[int, int]:
        paths = self.paths
        others = (paths.data, paths.venv, paths.staging, paths.restores)
        with self.account.act():
            return measure_below(paths.home, besides=others)

    def _gpus_work(self) -> bool:
        """Return True if a GPU works, or if the driver does not answer: unknown is not idle."""
        if not self.has_gpus:
            return False
        try:
            shares = gpus.read_driver().get(gpus.UTILIZATION)
        except HostTrouble as trouble:
            logger.warning("%s", trouble.reason)
            return True
        return shares is None or max(shares, default=0.0) >= WORKING_GPU_PERCENT


def has_gpus(tags: Mapping[str, str]) -> bool:
    """Return True if the host has GPUs whose use the driver shows."""
    return bool(gpus.count_of_host(tags)) and shutil.which(gpus.QUERY[0]) is not None


@dataclass(frozen=True, slots=True)
class PeerState:
    """The last report of a host to its gang."""

    at: str
    """When the program worked, or ended."""
    ended: int | None
    """The program's exit code."""
    closing: bool = False
    """True if the chief has finished and all others may leave."""
    uploaded: bool = False
    """True if all files of the host's program are in the bucket."""

    @property
    def finished(self) -> bool:
        return self.ended == 0


def has_ended(state: PeerState | None) -> bool:
    return state is not None and state.ended is not None


@dataclass(slots=True)
class StillTraining:
    """The hosts that a finished chief waits for, because `is_over` is False for them. A host that reports nothing new
    for `idle_seconds` has ended. The clocks of hosts are never compared."""

    began: float
    is_over: Callable[[PeerState | None], bool] = has_ended
    idle_seconds: float = field(default_factory=lambda: IDLE_SECONDS)
    _last_reports: dict[str, tuple[str, float]] = field(default_factory=dict)

    def among(self, states: Mapping[str, PeerState | None], seconds: float) -> tuple[str, ...]:
        """Return the workers to wait for, from their last reports. `seconds` is a monotonic clock."""
        return tuple(worker for worker, state in states.items() if self._trains(worker, state, seconds))

    def _trains(self, worker: str, state: PeerState | None, seconds: float) -> bool:
        if self.is_over(state):
            return False
        at, since = self._last_reports.get(worker, ("", self.began))
        if state and state.at != at:
            since = seconds
            self._last_reports[worker] = (state.at, since)
        return seconds - since < self.idle_seconds


class Peers:
    """The reports that the hosts of a gang exchange, one small object per host. A host writes its own to `mailbox` (the
    bucket with the host's role), and reads the others' from `bucket`."""

    def __init__(
        self, cluster: Cluster, assignment: Assignment, *, bucket: Bucket, mailbox: Bucket, sender: Sender
    ) -> None:
        self._cluster, self._assignment = cluster, assignment
        self._bucket, self._mailbox, self._sender = bucket, mailbox, sender
        self._reported_at = float("-inf")
        self._own = PeerState("", None)
        self._turn = threading.Lock()

    @property
    def are_there(self) -> bool:
        return len(self._cluster.assignments) > 1

    def report_working(self, seconds: float, now: datetime) -> None:
        """Report that the program works, at most every REPORT_SECONDS of `seconds`, a monotonic clock."""
        if self.are_there and seconds - self._reported_at >= REPORT_SECONDS:
            self._reported_at = seconds
            self._write_report(now)

    def repeat_report(self, now: datetime) -> None:
        """Repeat this host's last report with a new time."""
        self._write_report(now)

    def report_ended(self, code: int, now: datetime) -> None:
        self._write_report(now, ended=code)

    def report_closing(self, now: datetime) -> None:
        """Report, on the chief's host, that it has finished and all others may leave."""
        self._write_report(now, closing=True)

    def report_uploaded(self, now: datetime) -> None:
        """Report that all files of this host's program are in the bucket."""
        self._write_report(now, uploaded=True)

    def signs(self, seconds: float) -> Hashable:
        """Return a value that changes while another host's program works, and while the reports cannot be read."""
        try:
            return frozenset(
                (each.key, each.etag)
                for each in self._bucket.list(self._folder)
                if each.key != self._key(self._assignment)
            )
        except HostTrouble as trouble:
            logger.warning("the reports of the other hosts cannot be read: %s", trouble.reason)
            return seconds

    def state_of(self, other: Assignment) -> PeerState | None:
        """Return the last report of another host; None before its first one, and while it cannot be read."""
        try:
            text = self._bucket.read_if_there(self._key(other))
        except HostTrouble as trouble:
            logger.warning("the report of %s cannot be read: %s", other.instance, trouble.reason)
            return None
        return None if text is None else read(text)

    def states_of(self, others: Iterable[Assignment]) -> dict[str, PeerState | None]:
        return {other.instance: self.state_of(other) for other in others}

    def _write_report(self, now: datetime, **changes: Any) -> None:
        """Write this host's report with these changes. The other hosts continue without it if that fails."""
        if not self.are_there:
            return
        with self._turn:
            self._own = replace(self._own, at=timestamp(now), **changes)
            try:
                self._mailbox.write(self._key(self._assignment), json.dumps(asdict(self._own)).encode())
            except HostTrouble as trouble:
                logger.warning(
                    "this host's report to the other hosts could not be written: %s", trouble.reason
                )

    @property
    def _folder(self) -> str:
        return keys.working(self._cluster.run, self._cluster.attempt)

    def _key(self, assignment: Assignment) -> str:
        return self._sender.peer(assignment.instance).key(self._folder)


def read(text: bytes) -> PeerState | None:
    """Parse a report; None if it is not of this version."""
    try:
        document = json.loads(text)
        ended = document["ended"]
        closing, uploaded = (bool(document.get(word)) for word in ("closing", "uploaded"))
        return PeerState(str(document["at"]), None if ended is None else int(ended), closing, uploaded)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
