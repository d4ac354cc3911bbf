"""The processes of a cluster of TensorFlow 1: who is who, and how they wait for each other."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainyard.protocol.processes import RESTART
from trainyard.runtime.processes.forming import answers
from trainyard.runtime.processes.leaving import leave

v1 = tf.compat.v1

LOOK_SECONDS = 0.5
LAST_WORDS_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who this process is, from the flags. Worker 0 is the chief."""

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
        """Address of each parameter server: what it is."""
        return {address: f"ps {index} at {address}" for index, address in enumerate(self.parameter_servers)}

    @property
    def spec(self) -> Any:
        return v1.train.ClusterSpec({"ps": list(self.parameter_servers), "worker": list(self.workers)})

    def config(self) -> Any:
        """Sessions that know the parameter servers and themselves alone: other workers may come later, or go."""
        return v1.ConfigProto(device_filters=["/job:ps", self.device] if self.workers else [])

    def absent(self) -> list[str]:
        """The parameter servers and the chief, as far as nobody answers there."""
        addresses = self.servers | (
            {self.workers[0]: f"worker 0 at {self.workers[0]}"} if self.workers else {}
        )
        return [who for address, who in addresses.items() if not answers(address)]


def wait_for_the_chief(assignment: Assignment, target: str) -> None:
    """Until the chief has initialised or restored; TensorFlow itself looks every 30 seconds only."""
    missing = v1.report_uninitialized_variables()
    with v1.Session(target, config=assignment.config()) as session:
        while session.run(missing).size:
            time.sleep(LOOK_SECONDS)


@contextmanager
def within(seconds: float, assignment: Assignment, what: str) -> Iterator[None]:
    """Inside, this process waits for others; when it waits too long it leaves and says for what, and who is absent."""

    def too_long() -> None:
        absent = ", ".join(assignment.absent())
        why = f"nobody answers as {absent}" if absent else "although everybody answers"
        leave(RESTART, f"{assignment.job} {assignment.task} waited {seconds:g} seconds for {what}: {why}")

    timer = threading.Timer(seconds, too_long)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def done_queue() -> Any:
    """On the first parameter server: every worker but the chief says here that it has finished."""
    with tf.device("/job:ps/task:0"):
        return v1.FIFOQueue(1000, tf.int32, shapes=(), shared_name="done")


def over(task: int) -> Any:
    """On each parameter server: the chief says here that all is over."""
    with tf.device(f"/job:ps/task:{task}"):
        return v1.FIFOQueue(1, tf.int32, shapes=(), shared_name="over")


def say_done(assignment: Assignment, target: str) -> None:
    with tf.Graph().as_default(), v1.Session(target, config=assignment.config()) as session:
        session.run(done_queue().enqueue(assignment.task))


def wait_for_the_others(assignment: Assignment, target: str) -> None:
    """The others still finish the step they were at; none is waited for longer than LAST_WORDS_SECONDS."""
    if not assignment.workers:
        return
    end = time.monotonic() + LAST_WORDS_SECONDS
    with tf.Graph().as_default(), v1.Session(target, config=assignment.config()) as session:
        messages = done_queue().size()
        while session.run(messages) < len(assignment.workers) - 1 and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)


def say_over(assignment: Assignment, target: str) -> None:
    """The parameter servers may go."""
    with tf.Graph().as_default(), v1.Session(target, config=assignment.config()) as session:
        for task in range(len(assignment.parameter_servers)):
            session.run(over(task).enqueue(0))
