"""The processes of a cluster of TensorFlow 1: their roles, and how they wait for each other."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainyard.protocol.processes import RESTART
from trainyard.runtime.processes.exiting import leave
from trainyard.runtime.processes.forming import answers

v1 = tf.compat.v1

LOOK_SECONDS = 0.5
LAST_STEP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Assignment:
    """The role of this process, from the flags. Worker 0 is the chief."""

    parameter_servers: tuple[str, ...]
    workers: tuple[str, ...]
    job: str
    task: int

    @property
    def is_chief(self) -> bool:
        return self.job == "worker" and self.task == 0

    @property
    def device(self) -> str:
        return f"/job:{self.job}/task:{self.task}" if self.workers else ""

    @property
    def servers(self) -> dict[str, str]:
        """The names of the parameter servers, by address."""
        return {address: f"ps {index} at {address}" for index, address in enumerate(self.parameter_servers)}

    @property
    def spec(self) -> Any:
        return v1.train.ClusterSpec({"ps": list(self.parameter_servers), "worker": list(self.workers)})

    def config(self) -> Any:
        """Return the configuration of a session that only uses the parameter servers and its own process, because other
        workers may start later or end."""
        return v1.ConfigProto(device_filters=["/job:ps", self.device] if self.workers else [])

    def absent(self) -> list[str]:
        """Return the parameter servers, and the chief, that do not answer."""
        addresses = self.servers | (
            {self.workers[0]: f"worker 0 at {self.workers[0]}"} if self.workers else {}
        )
        return [name for address, name in addresses.items() if not answers(address)]


def wait_for_the_chief(assignment: Assignment, target: str) -> None:
    """Wait until the chief has initialized or restored the variables. TensorFlow itself would check only every 30 s."""
    missing = v1.report_uninitialized_variables()
    with v1.Session(target, config=assignment.config()) as session:
        while session.run(missing).size:
            time.sleep(LOOK_SECONDS)


@contextmanager
def limit_wait(seconds: float, assignment: Assignment, what: str) -> Iterator[None]:
    """Limit this process's wait for others. After that it leaves, and prints which process is
    absent."""

    def too_long() -> None:
        absent = ", ".join(assignment.absent())
        why = f"no answer from {absent}" if absent else "although all processes answer"
        leave(RESTART, f"{assignment.job} {assignment.task} waited {seconds:g} seconds for {what}: {why}")

    timer = threading.Timer(seconds, too_long)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def done_queue() -> Any:
    """Return the queue on the first parameter server. Every worker except the chief reports its end there."""
    with tf.device("/job:ps/task:0"):
        return v1.FIFOQueue(1000, tf.int32, shapes=(), shared_name="done")


def end_queue(task: int) -> Any:
    """Return the queue on a parameter server for the chief's report of the end of the training."""
    with tf.device(f"/job:ps/task:{task}"):
        return v1.FIFOQueue(1, tf.int32, shapes=(), shared_name="over")


def report_done(assignment: Assignment, target: str) -> None:
    with tf.Graph().as_default(), v1.Session(target, config=assignment.config()) as session:
        session.run(done_queue().enqueue(assignment.task))


def wait_for_the_others(assignment: Assignment, target: str) -> None:
    """Wait at most LAST_STEP_SECONDS until the other workers have finished their last step."""
    if not assignment.workers:
        return
    end = time.monotonic() + LAST_STEP_SECONDS
    with tf.Graph().as_default(), v1.Session(target, config=assignment.config()) as session:
        messages = done_queue().size()
        while session.run(messages) < len(assignment.workers) - 1 and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)


def report_end(assignment: Assignment, target: str) -> None:
    """Tell the parameter servers that they may end."""
    with tf.Graph().as_default(), v1.Session(target, config=assignment.config()) as session:
        for task in range(len(assignment.parameter_servers)):
            session.run(end_queue(task).enqueue(0))
