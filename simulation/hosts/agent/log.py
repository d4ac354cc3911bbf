"""The log of agent and program in the bucket."""

from __future__ import annotations

from simulation.hosts.flow import Steps
from simulation.hosts.gang import Program
from simulation.hosts.machine import Machine
from training.host.bucket import Bucket
from training.host.program.tracebacks import AGENTS_OWN
from training.host.reporting.chunks import chunk_key
from trainyard.protocol import keys
from trainyard.protocol.cluster import Assignment, Cluster
from trainyard.values.serialization import timestamp

LOG_SECONDS = 3.0


class Log:
    """The log of one attempt on one host: one chunk, which is rewritten when lines are added."""

    def __init__(self, machine: Machine, bucket: Bucket, cluster: Cluster, assignment: Assignment) -> None:
        self.lines: list[str] = []
        self.program: Program | None = None
        self._machine, self._bucket = machine, bucket
        self._name = assignment.name
        self._folder = f"{keys.logs(cluster.run, cluster.attempt)}{self._name}/"
        self._sent = ""

    def add(self, *lines: str) -> None:
        self.lines += [f"{AGENTS_OWN}{line}" for line in lines]

    def send_often(self) -> Steps:
        while True:
            yield LOG_SECONDS
            self.send()

    def send(self) -> None:
        program = self.program
        stepped = [f"step {program.gang.step}/{program.gang.work.steps}"] if program else []
        lines = [*self.lines, *(program.tail if program else ()), *stepped]
        text = "\n".join(lines)
        if text == self._sent:
            return
        self._sent = text
        at, who = timestamp(self._machine.now()), f"{self._name} {self._machine.instance}"
        body = "".join(f"{at} {who} | {line}\n" for line in lines)
        self._bucket.write(chunk_key(self._folder, 1), body.encode())
