"""The formed cluster: this process's place in it, the strategy, and what all its processes say to each other."""

import signal
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any, assert_never

import tensorflow as tf

from trainyard.protocol.cluster import Strategy
from trainyard.runtime.environment import Environment
from trainyard.runtime.processes.forming import answers, gpus, make_strategy
from trainyard.runtime.processes.leaving import leave_when_a_peer_is_gone
from trainyard.runtime.processes.place import Place, strategy_for
from trainyard.runtime.processes.serving import send_shutdown_notice, serve

LOOK_SECONDS = 0.2
CHIEF_STAYS_SECONDS = 0.3
"""So that TensorFlow has no lost connection to complain of in the others' logs."""
MOST_SECONDS_TO_END = 30.0


class Cluster:
    """`asked_to_leave` turns true when SIGTERM came."""

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
        """How many processes compute gradients: a chief of parameter servers does not."""
        match self.kind:
            case Strategy.PARAMETER_SERVER:
                return len(self.place.members["worker"])
            case Strategy.SINGLE | Strategy.MIRRORED | Strategy.MULTI_WORKER:
                return max(len(self.place.trainers), 1)
            case _:
                assert_never(self.kind)

    @property
    def in_step(self) -> bool:
        """Whether this process trains together with others, step by step."""
        match self.kind:
            case Strategy.MULTI_WORKER:
                return self.workers > 1 and self.place.role != "evaluator"
            case Strategy.SINGLE | Strategy.MIRRORED | Strategy.PARAMETER_SERVER:
                return False
            case _:
                assert_never(self.kind)

    @property
    def file_device(self) -> str | None:
        """Where files are written and read: what lies on parameter servers would otherwise be saved over there."""
        over_there = self.kind == Strategy.PARAMETER_SERVER and self.place.role == "chief"
        return "/job:chief/replica:0/task:0/device:CPU:0" if over_there else None

    def all_say(self, value: int) -> list[int]:
        """What every process that trains says, in the order of the workers. Waits until all have called it."""
        if not self.in_step:
            return [value]
        own = [value if index == self.place.position else 0 for index in range(self.workers)]
        replicas_here = self.strategy.num_replicas_in_sync // self.workers
        return [said // replicas_here for said in self._sum(tf.constant(own, tf.int64)).numpy().tolist()]

    def finish(self, environment: Environment) -> None:
        """Returns when every process has got this far and may leave with success."""
        if self.kind == Strategy.PARAMETER_SERVER and self.is_chief:
            send_shutdown_notice(self.place, environment)
        self.end_together()

    def end_together(self) -> None:
        """Returns when every process has got this far, and none needs this one any more.

        Processes fetch what they reduce from each other. One that ended while another still fetched the last word would
        look like one that failed. So there is one word more: whoever is in that has all before it, and whether it
        comes through matters to nobody. It has a thread of its own, since NCCL may wait for ever for who is gone.
        """
        if not self.in_step:
            return
        self.all_say(1)
        last_word = threading.Thread(target=self._say_for_nobody, daemon=True)
        last_word.start()
        end = time.monotonic() + MOST_SECONDS_TO_END
        while last_word.is_alive() and self._goes_on(end):
            last_word.join(LOOK_SECONDS)
        if self.is_chief:
            time.sleep(CHIEF_STAYS_SECONDS)
        while not self.is_chief and self._goes_on(end):
            time.sleep(LOOK_SECONDS)

    def _goes_on(self, end: float) -> bool:
        """Whether there is time left, and for the others a chief."""
        return time.monotonic() < end and (self.is_chief or answers(self.place.trainers[0]))

    def _say_for_nobody(self) -> None:
        with suppress(tf.errors.OpError):
            self.all_say(1)

    @tf.function(reduce_retracing=True)
    def _sum(self, values: Any) -> Any:
        def one(values: Any) -> Any:
            return tf.distribute.get_replica_context().all_reduce(
                tf.distribute.ReduceOp.SUM, tf.identity(values)
            )

        return self.strategy.experimental_local_results(self.strategy.run(one, args=(values,)))[0]


def join(environment: Environment) -> Cluster:
    """Form the cluster. A parameter server, and a worker of one, serves in here and never comes back."""
    place = Place.from_tf_config(environment.tf_config)
    kind = strategy_for(environment.strategy, place, len(gpus()))
    if kind == Strategy.PARAMETER_SERVER and place.members and "chief" not in place.members:
        raise SystemExit(
            "TF_CONFIG names no chief, whom trainyard.runtime needs beside the workers: leave out cluster.chief: worker"
        )
    if kind == Strategy.PARAMETER_SERVER and place.role in ("ps", "worker"):
        serve(place, environment)
    strategy = make_strategy(kind, place, devices=environment.devices, form_seconds=environment.form_seconds)
    cluster = Cluster(place, kind, strategy)
    if place.members and place.role != "evaluator":
        leave_when_a_peer_is_gone()
    _listen_for_sigterm(cluster)
    print(
        f"{place.name} of {kind}: {cluster.workers} workers, {strategy.num_replicas_in_sync} replicas, "
        f"{len(gpus())} GPUs here",
        flush=True,
    )
    return cluster


def _listen_for_sigterm(cluster: Cluster) -> None:
    """After the strategy was made: a strategy of several workers takes SIGTERM for itself and then ignores it."""

    def asked(number: int, frame: FrameType | None) -> None:
        cluster.asked_to_leave = True

    signal.signal(signal.SIGTERM, asked)
