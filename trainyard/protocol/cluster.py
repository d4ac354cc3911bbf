"""cluster.json of an attempt: which host has which role, and where the attempt begins."""

import json
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, assert_never

from trainyard.values import serialization
from trainyard.values.lazy import dataclass

PORT = 2222
"""The port of TensorFlow's server on every host."""


class Strategy(StrEnum):
    SINGLE = "single"
    MIRRORED = "mirrored"
    MULTI_WORKER = "multi_worker"
    PARAMETER_SERVER = "parameter_server"

    @property
    def has_several_hosts(self) -> bool:
        """Return True if more than one host may train."""
        match self:
            case Strategy.SINGLE | Strategy.MIRRORED:
                return False
            case Strategy.MULTI_WORKER | Strategy.PARAMETER_SERVER:
                return True
        assert_never(self)

    @property
    def is_asynchronous(self) -> bool:
        """Return True if each worker trains at its own speed and parameter servers hold the variables."""
        match self:
            case Strategy.SINGLE | Strategy.MIRRORED | Strategy.MULTI_WORKER:
                return False
            case Strategy.PARAMETER_SERVER:
                return True
        assert_never(self)

    @property
    def trains_in_step(self) -> bool:
        """Return True if several hosts take each step together. Their number may differ between attempts."""
        return self.has_several_hosts and not self.is_asynchronous

    @property
    def in_words(self) -> str:
        match self:
            case Strategy.SINGLE:
                return "one host"
            case Strategy.MIRRORED:
                return "all GPUs of one host"
            case Strategy.MULTI_WORKER:
                return "all-reduce over hosts"
            case Strategy.PARAMETER_SERVER:
                return "a coordinating chief, workers and parameter servers; asynchronous"
        assert_never(self)


SEVERAL_HOSTS = tuple(strategy for strategy in Strategy if strategy.has_several_hosts)
IN_STEP = tuple(strategy for strategy in Strategy if strategy.trains_in_step)
ASYNCHRONOUS = tuple(strategy for strategy in Strategy if strategy.is_asynchronous)


class Role(StrEnum):
    """The role of a host in its cluster, by TensorFlow's names."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


class Gang(IntEnum):
    """Hosts of one type that are launched together: the main gang of `hardware.instance_types`, and a second gang of
    `hardware.cpu_instance_types`, which have no GPU."""

    MAIN = 1
    CPU = 2


@dataclass(frozen=True, kw_only=True)
class Member:
    """A host that can have a role in a cluster."""

    instance: str
    gang: Gang = Gang.MAIN
    address: str | None = None
    """None before the host has reported it."""


@dataclass(frozen=True)
class Assignment:
    """One host's role in the cluster."""

    instance: str
    role: Role
    index: int
    """Counts the hosts of a role from 0. Workers count from 1 if the chief is worker 0."""
    address: str

    @property
    def is_chief(self) -> bool:
        return self.role is Role.CHIEF

    @property
    def name(self) -> str:
        """Return the name of the host in logs and outputs, such as `worker-1`."""
        return f"{self.role}-{self.index}"


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint in the bucket. Every host of the attempt restores this one."""

    step: int
    """Orders the checkpoints of a run. It is a step of the program only if the program's runtime is Trainyard's."""
    key: str
    """The folder of the checkpoint in the bucket."""
    at_step: int | None = None
    """The step that the program had reported; None if it had reported none."""

    @property
    def described(self) -> str:
        """Return the name for users. It contains a step only if the program has reported one."""
        return f"checkpoint {self.step}" if self.at_step is None else f"the checkpoint of step {self.at_step}"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The hosts of an attempt. The job is not part of it: hosts read job.json."""

    run: str
    attempt: int
    strategy: Strategy
    port: int = PORT
    assignments: tuple[Assignment, ...] = field(metadata={"json_key": "hosts"})
    checkpoint: Checkpoint | None = None
    """None if the attempt begins without a checkpoint."""
    deadline: datetime
    """The time at which every host asks its program to save and leave."""

    def assignment(self, instance: str) -> Assignment | None:
        """Return the assignment of an instance, or None if the attempt was made without it."""
        return next((assignment for assignment in self.assignments if assignment.instance == instance), None)

    @property
    def chief(self) -> Assignment:
        return next(assignment for assignment in self.assignments if assignment.is_chief)

    @property
    def chief_trains(self) -> bool:
        """Return True if the chief is one of the workers."""
        workers = self.hosts_with_role(Role.WORKER)
        return not self.strategy.is_asynchronous or not workers or workers[0].index > 0

    @property
    def trainers(self) -> tuple[Assignment, ...]:
        """Return the chief and then the workers: the job `worker` of MultiWorkerMirroredStrategy and of compat.v1."""
        return (self.chief, *self.hosts_with_role(Role.WORKER))

    @property
    def workers(self) -> tuple[Assignment, ...]:
        """Return the hosts that train: a chief that only coordinates is none of them."""
        return self.trainers if self.chief_trains else self.hosts_with_role(Role.WORKER)

    @property
    def servers(self) -> tuple[Assignment, ...]:
        return self.hosts_with_role(Role.PS)

    @property
    def evaluators(self) -> tuple[Assignment, ...]:
        """Return the evaluator, if the cluster has one."""
        return self.hosts_with_role(Role.EVALUATOR)

    @property
    def ranked(self) -> tuple[Assignment, ...]:
        """Return the hosts in the order of their ranks: chief, workers, parameter servers. An evaluator has no rank,
        because the others would wait for it."""
        return (*self.trainers, *self.servers)

    def hosts_with_role(self, role: Role) -> tuple[Assignment, ...]:
        """Return the hosts of a role in the order of their indices."""
        found = (assignment for assignment in self.assignments if assignment.role is role)
        return tuple(sorted(found, key=lambda assignment: assignment.index))

    def serves(self, assignment: Assignment) -> bool:
        """Return True if the host only serves the chief. How its program ends does not matter once the chief has
        finished."""
        is_evaluator = assignment.role is Role.EVALUATOR
        return is_evaluator or (self.strategy.is_asynchronous and not assignment.is_chief)

    def is_done_without(self, assignment: Assignment) -> bool:
        """Return True if the program of this host ends by itself, and the chief can finish without it. A chief that
        only coordinates tells its workers to end instead."""
        is_evaluator = assignment.role is Role.EVALUATOR
        return is_evaluator or (self.serves(assignment) and self.chief_trains)

    def trains_beside(self, assignment: Assignment) -> tuple[Assignment, ...]:
        """Return the workers that train on after the program of this host has ended. Only a chief that trains with
        parameter servers has such workers."""
        if not (self.strategy.is_asynchronous and self.chief_trains and assignment.is_chief):
            return ()
        return self.hosts_with_role(Role.WORKER)

    def restores_alone(self, assignment: Assignment) -> bool:
        """Return True if no other host restores the same checkpoint."""
        one_trains = self.strategy.is_asynchronous or len(self.trainers) == 1
        return assignment.is_chief and one_trains

    @property
    def addresses(self) -> list[str]:
        """Return the addresses of all hosts."""
        return [assignment.address for assignment in self.assignments]

    def with_port(self, assignments: tuple[Assignment, ...]) -> list[str]:
        """Return `address:port` of each host."""
        return [f"{assignment.address}:{self.port}" for assignment in assignments]


def read(text: str | bytes) -> Cluster:
    """Return the cluster that a file describes. Raise ValueError with every fault of an invalid file."""
    cluster = serialization.read(Cluster, json.loads(text))
    if sum(assignment.is_chief for assignment in cluster.assignments) != 1:
        raise ValueError("hosts: found no chief or several, expected one")
    return cluster


def checkpoint_of(latest: Mapping[str, Any] | None) -> Checkpoint | None:
    """Return the checkpoint that `checkpoints/latest.json` names, or None if the run has none yet."""
    return serialization.read(Checkpoint, latest) if latest else None
