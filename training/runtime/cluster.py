"""This process's place in the cluster, and the strategy that goes with it."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import tensorflow as tf

from training.runtime.leaving import RESTART, leave

FORM_SECONDS = 180.0
"""How long the cluster may take to form: hosts are ready before the start, only imports lie between."""
LOOK_SECONDS = 0.2
HANDSHAKE_SECONDS = 60.0
CHIEF_STAYS_SECONDS = 1.0
OTHERS_STAY_SECONDS = 30.0

PEER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
"""How TensorFlow says that another worker is gone."""


@dataclass(frozen=True, slots=True)
class Peers:
    """TF_CONFIG, read. Without one: a cluster of one."""

    workers: tuple[str, ...]
    index: int

    @staticmethod
    def from_tf_config(text: str | None) -> "Peers":
        if not text:
            return Peers(("localhost",), 0)
        said = json.loads(text)
        workers = tuple(said["cluster"].get("worker", ()))
        if said["task"]["type"] != "worker" or not workers:
            raise SystemExit(
                "this program trains with MultiWorkerMirroredStrategy: every task must be a worker"
            )
        return Peers(workers, int(said["task"]["index"]))

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(address for index, address in enumerate(self.workers) if index != self.index)


class Cluster:
    """A formed cluster. `asked_to_leave` turns true when SIGTERM came."""

    def __init__(self, peers: Peers, strategy: tf.distribute.Strategy) -> None:
        self.peers = peers
        self.strategy = strategy
        self.asked_to_leave = False

    @property
    def is_chief(self) -> bool:
        return self.peers.index == 0

    @property
    def workers(self) -> int:
        return len(self.peers.workers)

    def all_arrived(self) -> None:
        """Returns when every worker has called it."""
        if self.workers > 1:
            self._gather()

    def finish(self) -> None:
        """Returns when every worker has got this far and may leave with success.

        A worker that leaves while another still receives the last word would look like one that failed: so the
        chief stays for a moment, and the others until they see it go.
        """
        if self.workers == 1:
            return
        self._gather()
        if self.is_chief:
            time.sleep(CHIEF_STAYS_SECONDS)
            return
        end = time.monotonic() + OTHERS_STAY_SECONDS
        while answers(self.peers.workers[0]) and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)

    @tf.function(reduce_retracing=True)
    def _gather(self) -> Any:
        def one() -> Any:
            replica = tf.distribute.get_replica_context()
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, tf.ones(()))

        return self.strategy.run(one)


def join(tf_config: str | None, *, form_seconds: float = FORM_SECONDS) -> Cluster:
    """Form the cluster. A host that does not come in time is named, and everybody leaves to be started again."""
    peers = Peers.from_tf_config(tf_config)
    use_processors()
    if len(peers.workers) == 1 and not tf_config:
        cluster = Cluster(
            peers, tf.distribute.MirroredStrategy() if len(gpus()) > 1 else tf.distribute.get_strategy()
        )
    else:
        with _forming(peers, form_seconds):
            cluster = Cluster(peers, tf.distribute.MultiWorkerMirroredStrategy())
    _listen_for_sigterm(cluster)
    print(
        f"worker {peers.index} of {cluster.workers}, {cluster.strategy.num_replicas_in_sync} replicas, "
        f"{len(gpus())} GPUs here",
        flush=True,
    )
    return cluster


def gpus() -> list[Any]:
    found: list[Any] = tf.config.list_physical_devices("GPU")
    return found


def use_processors() -> None:
    """As many threads as this process may use processors, unless the environment says otherwise.

    TensorFlow counts the machine's processors, not those it was given; too many threads cost a small host dearly.
    """
    if gpus():
        return
    mine = int(os.environ.get("TRAINYARD_CPUS") or len(os.sched_getaffinity(0)))
    if "TF_NUM_INTRAOP_THREADS" not in os.environ:
        tf.config.threading.set_intra_op_parallelism_threads(mine)
    if "TF_NUM_INTEROP_THREADS" not in os.environ:
        tf.config.threading.set_inter_op_parallelism_threads(max(2, mine))


@contextmanager
def peers_may_vanish() -> Iterator[None]:
    """When another worker goes away, this one leaves with the code that means "start me again"."""
    try:
        yield
    except PEER_ERRORS as error:
        leave(
            RESTART,
            f"a peer is gone ({type(error).__name__}: {_first_line(error)}); leaving to be started again",
        )


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")[:300]


def _listen_for_sigterm(cluster: Cluster) -> None:
    """After the strategy was made: a strategy of several workers takes SIGTERM for itself and then ignores it."""

    def asked(number: int, frame: FrameType | None) -> None:
        cluster.asked_to_leave = True

    signal.signal(signal.SIGTERM, asked)


@contextmanager
def _forming(peers: Peers, seconds: float) -> Iterator[None]:
    """Inside, TensorFlow forms the cluster.

    TensorFlow waits for a missing worker without a word and without an end, and no other thread runs meanwhile.
    So the workers look for each other first, each at the door that TensorFlow will open. Should one vanish just then,
    SIGALRM ends the process; the host agent knows what that means.
    """
    absent = _meet(peers, seconds)
    if absent:
        leave(
            RESTART, f"the cluster did not form in {seconds:g} seconds: nobody answers at {', '.join(absent)}"
        )
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, HANDSHAKE_SECONDS))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _meet(peers: Peers, seconds: float) -> tuple[str, ...]:
    """Wait behind the own door until all others answer at theirs; who does not when the time is over."""
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        host, _, port = peers.workers[peers.index].rpartition(":")
        door.bind((host, int(port)))
        door.listen(len(peers.workers))
        end = time.monotonic() + seconds
        absent = peers.others
        while absent := tuple(address for address in absent if not answers(address)):
            if time.monotonic() >= end:
                return absent
            time.sleep(LOOK_SECONDS)
        return ()


def answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True
