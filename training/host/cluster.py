"""cluster.json, read: who is who in this attempt, and what TensorFlow must be told. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Seat:
    instance: str
    role: str
    index: int
    address: str

    @property
    def is_chief(self) -> bool:
        return self.role == "chief"

    @property
    def is_evaluator(self) -> bool:
        return self.role == "evaluator"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint that an attempt restores. `key` is its folder in the bucket."""

    step: int
    key: str


@dataclass(frozen=True, slots=True)
class Cluster:
    run: str
    attempt: int
    strategy: str
    port: int
    seats: tuple[Seat, ...]
    checkpoint: Checkpoint | None
    deadline: datetime
    job: Mapping[str, Any]

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> "Cluster":
        named = document.get("checkpoint")
        return Cluster(
            run=document["run"],
            attempt=int(document["attempt"]),
            strategy=document["strategy"],
            port=int(document["port"]),
            seats=tuple(
                Seat(host["instance"], host["role"], int(host["index"]), host["address"])
                for host in document["hosts"]
            ),
            checkpoint=Checkpoint(int(named["step"]), named["key"]) if named else None,
            deadline=datetime.fromisoformat(document["deadline"]),
            job=document["job"],
        )

    def seat(self, instance: str) -> Seat | None:
        """This instance's seat; None when the attempt was made without it."""
        return next((seat for seat in self.seats if seat.instance == instance), None)

    def serves(self, seat: Seat) -> bool:
        """Whether this host only serves the chief: what becomes of it once the chief has ended is no news."""
        return self.strategy == "parameter_server" and not seat.is_chief

    @property
    def chief_trains(self) -> bool:
        """Whether the chief is one of the workers."""
        return self.strategy != "parameter_server" or self.job["cluster"]["chief"] == "worker"

    def restores_alone(self, seat: Seat) -> bool:
        """Whether no other host must restore the same checkpoint."""
        return len(self.seats) == 1 or (self.strategy == "parameter_server" and seat.is_chief)

    @property
    def chief(self) -> Seat:
        return next(seat for seat in self.seats if seat.is_chief)

    @property
    def trainers(self) -> tuple[Seat, ...]:
        """The chief, then the workers: the job `worker` of MultiWorkerMirroredStrategy and of a compat.v1 program."""
        ordered = sorted(self.seats, key=lambda seat: (not seat.is_chief, seat.index))
        return tuple(seat for seat in ordered if seat.role in ("chief", "worker"))

    @property
    def servers(self) -> tuple[Seat, ...]:
        return self._of("ps")

    def task(self, seat: Seat) -> tuple[str, int]:
        """The seat's job name and task index in a ClusterSpec that knows only `worker` and `ps`."""
        if seat in self.trainers:
            return "worker", self.trainers.index(seat)
        return seat.role, self._of(seat.role).index(seat)

    def tf_config(self, seat: Seat) -> str | None:
        """TF_CONFIG for one seat; None where TensorFlow needs none (a single host).

        With multi_worker everybody is a `worker` and worker 0 is the chief, as MultiWorkerMirroredStrategy has it;
        with parameter_server the roles are TensorFlow's own, unless the job wants the chief to be worker 0 there too,
        and an evaluator is told of the cluster but is no part of it.
        """
        if self.strategy in ("single", "mirrored"):
            return None
        if self.chief_trains:
            members = {"worker": self.trainers, "ps": self.servers}
            job_name, index = self.task(seat)
        else:
            members = {role: self._of(role) for role in ("chief", "worker", "ps")}
            job_name, index = seat.role, self._of(seat.role).index(seat)
        doors = {role: self.doors(seats) for role, seats in members.items() if seats}
        return json.dumps({"cluster": doors, "task": {"type": job_name, "index": index}})

    def doors(self, seats: tuple[Seat, ...]) -> list[str]:
        """`address:port` of each."""
        return [f"{seat.address}:{self.port}" for seat in seats]

    def _of(self, role: str) -> tuple[Seat, ...]:
        seats = (seat for seat in self.seats if seat.role == role)
        return tuple(sorted(seats, key=lambda seat: seat.index))
