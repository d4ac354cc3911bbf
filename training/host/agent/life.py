"""What a host's program shows of its work, and what the other hosts of its gang say of theirs."""

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
from training.host.disk import written_below
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

SAY_SECONDS = 150.0
"""How often a host says at most that its program works."""
IDLE_SECONDS = 300.0
"""How long one may say nothing that is waited for: it looks once a minute, and the way may be long."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Life:
    """`has_gpus`: the driver can be asked what the GPUs do."""

    paths: Paths
    account: Account
    progress: Progress
    has_gpus: bool
    lines: NewLines = field(default_factory=NewLines)
    _effort: Effort = field(default_factory=Effort)
    _gpu_looks: int = 0

    def hear(self, line: str) -> None:
        """A line that it has printed; the agent's own are none."""
        if not line.startswith(AGENTS_OWN):
            self.lines.hear(line)

    def signs(self, program: Program) -> Hashable:
        """What a program that goes on changes: its lines, reports and files and, where these are not all that is to be
        expected of it, its share of processors and GPUs. One that reports its steps may keep a processor busy while it
        hangs; after its last step it exports, which nobody reports."""
        self._effort.look(time.monotonic(), program.processor_time() / processes.TICKS)
        shown = (self.lines.count, self.progress.length, self._files())
        if self.progress.reports and not self.progress.is_at_its_end:
            return shown
        self._gpu_looks += self._gpus_work()
        return (*shown, self._effort.looks, self._gpu_looks)

    def _files(self) -> tuple[int, int]:
        paths = self.paths
        others = (paths.data, paths.venv, paths.staging, paths.restores)
        with self.account.acting():
            return written_below(paths.home, besides=others)

    def _gpus_work(self) -> bool:
        """A driver that does not answer tells nothing, which is not that nobody works: unknown is not idle."""
        if not self.has_gpus:
            return False
        try:
            shares = gpus.ask_driver().get(gpus.UTILIZATION)
        except HostTrouble as trouble:
            logger.warning("%s", trouble.reason)
            return True
        return shares is None or max(shares, default=0.0) >= WORKING_GPU_PERCENT


def has_gpus(tags: Mapping[str, str]) -> bool:
    """Whether there are any whose use can be seen."""
    return bool(gpus.of_host(tags)) and shutil.which(gpus.QUERY[0]) is not None


@dataclass(frozen=True, slots=True)
class PeerState:
    """What another host has said last: that its program works (at `at`), or how that ended.

    - `closing`: the chief has finished, and all others may leave.
    - `uploaded`: all that the host's program has left is in the bucket.
    """

    at: str
    ended: int | None
    closing: bool = False
    uploaded: bool = False

    @property
    def finished(self) -> bool:
        return self.ended == 0


def has_ended(state: PeerState | None) -> bool:
    return state is not None and state.ended is not None


@dataclass(slots=True)
class StillTraining:
    """Which other hosts are waited for when the chief has finished: those that train on, or those that `is_over` does
    not hold for. Clocks of hosts are not compared: a host that says nothing new for `idle_seconds` has ended."""

    began: float
    is_over: Callable[[PeerState | None], bool] = has_ended
    idle_seconds: float = field(default_factory=lambda: IDLE_SECONDS)
    _said: dict[str, tuple[str, float]] = field(default_factory=dict)

    def among(self, states: Mapping[str, PeerState | None], seconds: float) -> tuple[str, ...]:
        """Of these workers, by what each has said last; `seconds` is a clock that only goes on."""
        return tuple(worker for worker, state in states.items() if self._trains(worker, state, seconds))

    def _trains(self, worker: str, state: PeerState | None, seconds: float) -> bool:
        if self.is_over(state):
            return False
        at, since = self._said.get(worker, ("", self.began))
        if state and state.at != at:
            since = seconds
            self._said[worker] = (state.at, since)
        return seconds - since < self.idle_seconds


class Peers:
    """What the hosts of a gang tell each other, by a small object of each in the bucket. A host writes its own into
    `mailbox`, the bucket as its own role may use it, and reads the others' in `bucket`."""

    def __init__(
        self, cluster: Cluster, assignment: Assignment, *, bucket: Bucket, mailbox: Bucket, sender: Sender
    ) -> None:
        self._cluster, self._assignment = cluster, assignment
        self._bucket, self._mailbox, self._sender = bucket, mailbox, sender
        self._said_at = float("-inf")
        self._own = PeerState("", None)
        self._turn = threading.Lock()

    @property
    def are_there(self) -> bool:
        return len(self._cluster.assignments) > 1

    def say_works(self, seconds: float, now: datetime) -> None:
        """At most every SAY_SECONDS of `seconds`, a clock that only goes on."""
        if self.are_there and seconds - self._said_at >= SAY_SECONDS:
            self._said_at = seconds
            self._leave(now)

    def say_there(self, now: datetime) -> None:
        """Repeat what this host has said last, with another time."""
        self._leave(now)

    def say_ended(self, code: int, now: datetime) -> None:
        self._leave(now, ended=code)

    def say_closing(self, now: datetime) -> None:
        """Say on the chief's host that it has finished, and that all others may leave."""
        self._leave(now, closing=True)

    def say_uploaded(self, now: datetime) -> None:
        """Say that all that this host's program has left is in the bucket."""
        self._leave(now, uploaded=True)

    def signs(self, seconds: float) -> Hashable:
        """Changes while any other host's program works. Nobody is blamed while they cannot be asked."""
        try:
            return frozenset(
                (each.key, each.etag)
                for each in self._bucket.list(self._folder)
                if each.key != self._key(self._assignment)
            )
        except HostTrouble as trouble:
            logger.warning("what the other hosts do is unknown: %s", trouble.reason)
            return seconds

    def state_of(self, other: Assignment) -> PeerState | None:
        """What it has said last; None before its first word, and while nobody can ask."""
        try:
            text = self._bucket.read_if_there(self._key(other))
        except HostTrouble as trouble:
            logger.warning("what %s does is unknown: %s", other.instance, trouble.reason)
            return None
        return None if text is None else read(text)

    def states_of(self, others: Iterable[Assignment]) -> dict[str, PeerState | None]:
        return {other.instance: self.state_of(other) for other in others}

    def _leave(self, now: datetime, **changes: Any) -> None:
        """Write this host's state, with what has changed. If that fails, the other hosts do without it."""
        if not self.are_there:
            return
        with self._turn:
            self._own = replace(self._own, at=timestamp(now), **changes)
            try:
                self._mailbox.write(self._key(self._assignment), json.dumps(asdict(self._own)).encode())
            except HostTrouble as trouble:
                logger.warning("the other hosts cannot be told what this one does: %s", trouble.reason)

    @property
    def _folder(self) -> str:
        return keys.working(self._cluster.run, self._cluster.attempt)

    def _key(self, assignment: Assignment) -> str:
        return self._sender.of_peer(assignment.instance).key(self._folder)


def read(text: bytes) -> PeerState | None:
    """None for what no host of this version has written."""
    try:
        document = json.loads(text)
        ended = document["ended"]
        closing, uploaded = (bool(document.get(word)) for word in ("closing", "uploaded"))
        return PeerState(str(document["at"]), None if ended is None else int(ended), closing, uploaded)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
