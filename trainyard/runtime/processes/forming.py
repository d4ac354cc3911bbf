"""The processes of a cluster find each other here, each strategy in its own way and with a deadline."""

import os
import signal
import socket
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, assert_never

import tensorflow as tf

from trainyard.protocol.cluster import Strategy
from trainyard.protocol.processes import FORMING, RESTART
from trainyard.runtime.processes.exiting import leave
from trainyard.runtime.processes.place import Place

LOOK_SECONDS = 0.2
HANDSHAKE_SECONDS = 60.0


def make_strategy(kind: Strategy, place: Place, *, devices: int, form_seconds: float) -> Any:
    """Form the cluster and return its strategy. If a process is missing in time, name it and exit for a restart.

    Without GPUs, `mirrored` uses `devices` logical processors.
    """
    use_processors()
    if place.role == "evaluator" or kind == Strategy.SINGLE:
        return tf.distribute.get_strategy()
    if kind == Strategy.MIRRORED:
        return tf.distribute.MirroredStrategy(None if gpus() else _logical_processors(devices))
    if not place.members:
        raise SystemExit(f"{kind} needs TF_CONFIG with the addresses of the cluster, but it is not set")
    if kind == Strategy.MULTI_WORKER:
        with forming(place, form_seconds):
            return tf.distribute.MultiWorkerMirroredStrategy()
    if kind != Strategy.PARAMETER_SERVER:
        assert_never(kind)
    with forming(place, form_seconds):
        return tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())


def gpus() -> list[Any]:
    found: list[Any] = tf.config.list_physical_devices("GPU")
    return found


def use_processors() -> None:
    """Use as many threads as this process may use processors, unless the environment sets the number.

    TensorFlow counts all processors of the machine, and too many threads slow down a small host.
    """
    if gpus():
        return
    mine = int(os.environ.get("TRAINYARD_CPUS") or len(os.sched_getaffinity(0)))
    if "TF_NUM_INTRAOP_THREADS" not in os.environ:
        tf.config.threading.set_intra_op_parallelism_threads(mine)
    if "TF_NUM_INTEROP_THREADS" not in os.environ:
        tf.config.threading.set_inter_op_parallelism_threads(max(2, mine))


def answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def wait_for(addresses: Collection[str], seconds: float) -> tuple[str, ...]:
    """Wait until all addresses answer, and return those that do not answer in time."""
    end = time.monotonic() + seconds
    absent = tuple(addresses)
    while absent := tuple(address for address in absent if not answers(address)):
        if time.monotonic() >= end:
            return absent
        time.sleep(LOOK_SECONDS)
    return ()


def any_is_gone(addresses: Collection[str]) -> bool:
    """Return True if an address does not answer now."""
    return not all(map(answers, addresses))


def leave_without(absent: Collection[str], place: Place, seconds: float) -> None:
    """Exit for a restart if a process is absent, and name it."""
    if absent:
        named = ", ".join(place.others()[address] for address in absent)
        leave(RESTART, f"the cluster did not form in {seconds:g} seconds: no answer from {named}")


def _logical_processors(count: int) -> list[str]:
    processor = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * count)
    return [f"/cpu:{index}" for index in range(count)]


@contextmanager
def forming(place: Place, seconds: float) -> Iterator[None]:
    """TensorFlow forms the cluster in the block.

    TensorFlow waits for a missing process silently and forever, and blocks all threads. So the processes find each
    other first, on the ports on which TensorFlow will listen. If one exits after that, SIGALRM ends this process, and
    the host agent restarts it.
    """
    with _listening(place.address, len(place.others())):
        absent = wait_for(place.others(), seconds)
    leave_without(absent, place, seconds)
    print(FORMING, flush=True)
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, HANDSHAKE_SECONDS))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _listening(address: str, callers: int) -> Iterator[None]:
    """Listen at `address` before TensorFlow does."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        host, _, port = address.rpartition(":")
        listener.bind((host, int(port)))
        listener.listen(max(callers, 1))
        yield
