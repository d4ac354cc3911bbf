"""The formed cluster: this process's place, the strategy, and the exchange of values between processes."""

import signal
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any

import tensorflow as tf

from trainyard.protocol.cluster import Strategy
from trainyard.runtime.environment import Environment
from trainyard.runtime.processes.exiting import leave_when_a_peer_is_gone
from trainyard.runtime.processes.forming import answers, gpus, make_strategy
from trainyard.runtime.processes.place import Place, strategy_for
from trainyard.runtime.processes.serving import send_shutdown_notice, serve
from trainyard.values.quantities import format_count

LOOK_SECONDS = 0.2
CHIEF_STAYS_SECONDS = 0.3
"""Seconds that keep TensorFlow from logging a lost connection on the other hosts."""
MOST_SECONDS_TO_END = 30.0


class Cluster:
    """The cluster. `asked_to_leave` becomes True at SIGTERM."""

    def __init__(self, place: Place, kind: Strategy, strategy: Any) -> None:
        self.place = place
        self.kind = kind
        self.strategy = strategy
        self.asked_to_leave = False

    @property
    def is_chief(self) -> bool:
        return self.place.is_chief

    @property
    def workers(self) -> int:
        """Return the number of processes that compute gradients. A chief of parameter servers does not."""
        if self.kind.is_asynchronous:
            return len(self.place.members["worker"])
        return max(len(self.place.trainers), 1)

    @property
    def in_step(self) -> bool:
        """Return True if this process trains in step with others."""
        return self.kind.trains_in_step and self.workers > 1 and self.place.role != "evaluator"

    @property
    def file_device(self) -> str | None:
        """Return the device for files. Variables on parameter servers would otherwise be saved there."""
        over_there = self.kind.is_asynchronous and self.place.role == "chief"
        return "/job:chief/replica:0/task:0/device:CPU:0" if over_there else None

    @property
    def saving_needs_all(self) -> bool:
        """Return True if writing variables may exchange values between processes, so that all must write."""
        return True

    def must_leave(self) -> bool:
        """Return True if this process must save and leave."""
        return self.asked_to_leave

    def gather(self, value: int) -> list[int]:
        """Return the values of all training processes in the order of the workers. Blocks until all have called it."""
        if not self.in_step:
            return [value]
        own = [value if index == self.place.position else 0 for index in range(self.workers)]
        replicas_here = self.strategy.num_replicas_in_sync // self.workers
        return [said // replicas_here for said in self._sum(tf.constant(own, tf.int64)).numpy().tolist()]

    def finish(self, environment: Environment) -> None:
        """Return once every process has called it and may exit with success."""
        if self.kind.is_asynchronous and self.is_chief:
            send_shutdown_notice(self.place, environment)
        self.end_together()

    def end_together(self) -> None:
        """Return once every process has called it and none needs this one.

        Processes fetch reduced values from each other, and a process that exits during the last fetch would look like a
        failed one. So one more reduction follows: a process in it has finished all others, and its result is not used.
        It runs in a thread, because NCCL may wait forever for a process that has exited.
        """
        if not self.in_step:
            return
        self.gather(1)
        last_exchange = threading.Thread(target=self._exchange_unused, daemon=True)
        last_exchange.start()
        end = time.monotonic() + MOST_SECONDS_TO_END
        while last_exchange.is_alive() and self._may_wait(end):
            last_exchange.join(LOOK_SECONDS)
        if self.is_chief:
            time.sleep(CHIEF_STAYS_SECONDS)
        while not self.is_chief and self._may_wait(end):
            time.sleep(LOOK_SECONDS)

    def _may_wait(self, end: float) -> bool:
        """Return True while time is left and, except on the chief, the chief answers."""
        return time.monotonic() < end and (self.is_chief or answers(self.place.trainers[0]))

    def _exchange_unused(self) -> None:
        with suppress(tf.errors.OpError):
            self.gather(1)

    @tf.function(reduce_retracing=True)
    def _sum(self, values: Any) -> Any:
        def one(values: Any) -> Any:
            return tf.distribute.get_replica_context().all_reduce(
                tf.distribute.ReduceOp.SUM, tf.identity(values)
            )

        return self.strategy.experimental_local_results(self.strategy.run(one, args=(values,)))[0]


def join(environment: Environment) -> Cluster:
    """Form the cluster. On a parameter server and on its workers, serve the chief and never return."""
    place = Place.from_tf_config(environment.tf_config)
    kind = strategy_for(environment.strategy, place, len(gpus()))
    if kind.is_asynchronous and place.members and "chief" not in place.members:
        raise SystemExit(
            "TF_CONFIG names no chief, but trainyard.runtime needs one: remove cluster.chief: worker from the job file"
        )
    if kind.is_asynchronous and place.role in ("ps", "worker"):
        serve(place, environment)
    strategy = make_strategy(kind, place, devices=environment.devices, form_seconds=environment.form_seconds)
    cluster = Cluster(place, kind, strategy)
    if place.members and place.role != "evaluator":
        leave_when_a_peer_is_gone()
    listen_for_sigterm(cluster)
    print(
        f"{place.name} of {kind}: {format_count(cluster.workers, 'worker')}, "
        f"{format_count(strategy.num_replicas_in_sync, 'replica')}, {format_count(len(gpus()), 'GPU')} here",
        flush=True,
    )
    return cluster


def listen_for_sigterm(cluster: Cluster) -> None:
    """Handle SIGTERM. Call it after the strategy is created, because a multi-worker strategy replaces the handler."""

    def asked(number: int, frame: FrameType | None) -> None:
        cluster.asked_to_leave = True

    signal.signal(signal.SIGTERM, asked)
