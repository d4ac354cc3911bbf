"""cluster.json, read: who is who in this attempt, and what TensorFlow, PyTorch and JAX must be told. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_never

from trainyard.protocol.cluster import Role, Strategy

MASTER_PORT = 29500
"""Where the processes of PyTorch and its like meet, on the host of rank 0; PyTorch's own usual one."""
COORDINATOR_PORT = 8476
"""Where JAX's coordinator is, on the same host."""


@dataclass(frozen=True, slots=True)
class Assignment:
    instance: str
    role: Role
    index: int
    address: str

    @property
    def is_chief(self) -> bool:
        return self.role is Role.CHIEF


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint that an attempt restores. `key` is its folder in the bucket."""

    step: int
    key: str


@dataclass(frozen=True, slots=True)
class Cluster:
    run: str
    attempt: int
    strategy: Strategy
    port: int
    assignments: tuple[Assignment, ...]
    checkpoint: Checkpoint | None
    deadline: datetime
    job: Mapping[str, Any]

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> "Cluster":
        named = document.get("checkpoint")
        return Cluster(
            run=document["run"],
            attempt=int(document["attempt"]),
            strategy=Strategy(document["strategy"]),
            port=int(document["port"]),
            assignments=tuple(
                Assignment(host["instance"], Role(host["role"]), int(host["index"]), host["address"])
                for host in document["hosts"]
            ),
            checkpoint=Checkpoint(int(named["step"]), named["key"]) if named else None,
            deadline=datetime.fromisoformat(document["deadline"]),
            job=document["job"],
        )

    def assignment(self, instance: str) -> Assignment | None:
        """This instance's assignment; None when the attempt was made without it."""
        return next((assignment for assignment in self.assignments if assignment.instance == instance), None)

    def serves(self, assignment: Assignment) -> bool:
        """Whether this host only serves the chief: what becomes of it once the chief has ended is no news."""
        is_evaluator = assignment.role is Role.EVALUATOR
        return is_evaluator or (self.has_servers and not assignment.is_chief)

    def is_done_without(self, assignment: Assignment) -> bool:
        """Whether this host's program ends by itself, and how changes nothing once the chief has finished: not one of
        those that a chief of its own tells to end."""
        is_evaluator = assignment.role is Role.EVALUATOR
        return is_evaluator or (self.serves(assignment) and self.chief_trains)

    @property
    def has_servers(self) -> bool:
        """Whether the variables lie on parameter servers, and one chief is at the centre of it all."""
        match self.strategy:
            case Strategy.SINGLE | Strategy.MIRRORED | Strategy.MULTI_WORKER:
                return False
            case Strategy.PARAMETER_SERVER:
                return True
            case _:
                assert_never(self.strategy)

    @property
    def chief_trains(self) -> bool:
        """Whether the chief is one of the workers."""
        return not self.has_servers or self.job["cluster"]["chief"] == "worker"

    def trains_beside(self, assignment: Assignment) -> tuple[Assignment, ...]:
        """The workers that train on by themselves when this one's program has ended: those of a chief that is a worker
        of parameter servers."""
        if not (self.has_servers and self.chief_trains and assignment.is_chief):
            return ()
        return tuple(other for other in self.trainers if other is not assignment)

    def restores_alone(self, assignment: Assignment) -> bool:
        """Whether no other host must restore the same checkpoint."""
        one_trains = self.has_servers or len(self.trainers) == 1
        return assignment.is_chief and one_trains

    @property
    def chief(self) -> Assignment:
        return next(assignment for assignment in self.assignments if assignment.is_chief)

    @property
    def trainers(self) -> tuple[Assignment, ...]:
        """The chief, then the workers: the job `worker` of MultiWorkerMirroredStrategy and of a compat.v1 program."""
        ordered = sorted(self.assignments, key=lambda assignment: (not assignment.is_chief, assignment.index))
        return tuple(assignment for assignment in ordered if assignment.role in (Role.CHIEF, Role.WORKER))

    @property
    def servers(self) -> tuple[Assignment, ...]:
        return self._of(Role.PS)

    @property
    def evaluators(self) -> tuple[Assignment, ...]:
        """One, or none."""
        return self._of(Role.EVALUATOR)

    @property
    def ranked(self) -> tuple[Assignment, ...]:
        """The hosts in the order of their ranks: the chief, workers, parameter servers. An evaluator has none: whoever
        counts on it would wait for it."""
        return (*self.trainers, *self.servers)

    def rank(self, assignment: Assignment) -> int | None:
        return self.ranked.index(assignment) if assignment in self.ranked else None

    def rank_variables(self, assignment: Assignment) -> dict[str, str]:
        """What PyTorch, JAX and their like read of a cluster with one process a host, by variable: as torchrun defines
        them. None where TensorFlow is told nothing either (a single host, whose GPUs a program shares out itself), and
        for an evaluator."""
        number = self.rank(assignment)
        if number is None or not self._is_told:
            return {}
        rank, hosts, first = str(number), str(len(self.ranked)), self.ranked[0].address
        return {
            "RANK": rank,
            "WORLD_SIZE": hosts,
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "NODE_RANK": rank,
            "GROUP_RANK": rank,
            "NNODES": hosts,
            "MASTER_ADDR": first,
            "MASTER_PORT": str(MASTER_PORT),
            "JAX_COORDINATOR_ADDRESS": f"{first}:{COORDINATOR_PORT}",
            "JAX_NUM_PROCESSES": hosts,
            "JAX_PROCESS_ID": rank,
        }

    @property
    def _is_told(self) -> bool:
        """Whether a program is told of a cluster."""
        match self.strategy:
            case Strategy.SINGLE | Strategy.MIRRORED:
                return False
            case Strategy.MULTI_WORKER | Strategy.PARAMETER_SERVER:
                return True
            case _:
                assert_never(self.strategy)

    def task(self, assignment: Assignment) -> tuple[str, int]:
        """The assignment's job name and task index in a ClusterSpec that knows only `worker` and `ps`."""
        if assignment in self.trainers:
            return "worker", self.trainers.index(assignment)
        return assignment.role, self._of(assignment.role).index(assignment)

    def tf_config(self, assignment: Assignment) -> str | None:
        """TF_CONFIG for one assignment; None where TensorFlow needs none (a single host).

        With multi_worker everybody is a `worker` and worker 0 is the chief, as MultiWorkerMirroredStrategy has it;
        with parameter_server the roles are TensorFlow's own, unless the job wants the chief to be worker 0 there too.
        An evaluator is told of the cluster but is no part of it.
        """
        if not self._is_told:
            return None
        if self.chief_trains:
            members = {"worker": self.trainers, "ps": self.servers}
            job_name, index = self.task(assignment)
        else:
            members = {role: self._of(role) for role in (Role.CHIEF, Role.WORKER, Role.PS)}
            job_name, index = assignment.role, self._of(assignment.role).index(assignment)
        addresses = {
            role: self.addresses(assignments) for role, assignments in members.items() if assignments
        }
        return json.dumps({"cluster": addresses, "task": {"type": job_name, "index": index}})

    @property
    def hosts(self) -> list[str]:
        """The addresses of all."""
        return [assignment.address for assignment in self.assignments]

    def addresses(self, assignments: tuple[Assignment, ...]) -> list[str]:
        """`address:port` of each."""
        return [f"{assignment.address}:{self.port}" for assignment in assignments]

    def _of(self, role: Role) -> tuple[Assignment, ...]:
        assignments = (assignment for assignment in self.assignments if assignment.role is role)
        return tuple(sorted(assignments, key=lambda assignment: assignment.index))
