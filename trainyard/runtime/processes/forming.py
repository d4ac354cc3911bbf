"""How the processes of a cluster find each other, each strategy in its own way and with a deadline."""

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
from trainyard.runtime.processes.leaving import leave
from trainyard.runtime.processes.place import Place

LOOK_SECONDS = 0.2
HANDSHAKE_SECONDS = 60.0


def make_strategy(kind: Strategy, place: Place, *, devices: int, form_seconds: float) -> Any:
    """The strategy, formed. Who does not come in time is named, and everybody leaves to be started again.

    `devices` stand in for GPUs under `mirrored` where there are none.
    """
    use_processors()
    if place.role == "evaluator" or kind == Strategy.SINGLE:
        return tf.distribute.get_strategy()
    if kind == Strategy.MIRRORED:
        return tf.distribute.MirroredStrategy(None if gpus() else _logical_processors(devices))
    if not place.members:
        raise SystemExit(f"{kind} needs TF_CONFIG, which says who the others are: there is none")
    if kind == Strategy.MULTI_WORKER:
        with _forming(place, form_seconds):
            return tf.distribute.MultiWorkerMirroredStrategy()
    if kind != Strategy.PARAMETER_SERVER:
        assert_never(kind)
    with _forming(place, form_seconds):
        return tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())


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


def answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def wait_for(addresses: Collection[str], seconds: float) -> tuple[str, ...]:
    """Wait until all of them answer; who does not when the time is over."""
    end = time.monotonic() + seconds
    absent = tuple(addresses)
    while absent := tuple(address for address in absent if not answers(address)):
        if time.monotonic() >= end:
            return absent
        time.sleep(LOOK_SECONDS)
    return ()


def leave_without(absent: Collection[str], place: Place, seconds: float) -> None:
    """Leave to be started again when anybody is absent, naming them."""
    if absent:
        named = ", ".join(place.others()[address] for address in absent)
        leave(RESTART, f"the cluster did not form in {seconds:g} seconds: nobody answers as {named}")


def _logical_processors(count: int) -> list[str]:
    processor = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * count)
    return [f"/cpu:{index}" for index in range(count)]


@contextmanager
def _forming(place: Place, seconds: float) -> Iterator[None]:
    """Inside, TensorFlow forms the cluster.

    TensorFlow waits for a missing process without a word and without an end, and no other thread runs meanwhile.
    So all look for each other first, each on the port on which TensorFlow will listen. Should one vanish just then,
    SIGALRM ends the process; the host agent knows what that means.
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
    """Be seen at `address` before TensorFlow listens there."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        host, _, port = address.rpartition(":")
        listener.bind((host, int(port)))
        listener.listen(max(callers, 1))
        yield
