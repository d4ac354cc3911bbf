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


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint in the bucket. `key` is its folder there."""

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

    def tf_config(self, seat: Seat) -> str | None:
        """TF_CONFIG for one seat; None where TensorFlow needs none (a single host).

        With multi_worker everybody is a `worker` and worker 0 is the chief, as MultiWorkerMirroredStrategy
        has it; with parameter_server the roles are TensorFlow's own.
        """
        if self.strategy == "multi_worker":
            ordered = sorted(self.seats, key=lambda other: (not other.is_chief, other.index))
            members = {"worker": [self._door(other) for other in ordered]}
            task = {"type": "worker", "index": ordered.index(seat)}
        elif self.strategy == "parameter_server":
            members = {}
            for other in sorted(self.seats, key=lambda other: other.index):
                if other.role != "evaluator":  # an evaluator is told of the cluster, but is no part of it
                    members.setdefault(other.role, []).append(self._door(other))
            before = [other for other in self.seats if other.role == seat.role and other.index < seat.index]
            task = {"type": seat.role, "index": len(before)}
        else:
            return None
        return json.dumps({"cluster": members, "task": task})

    def _door(self, seat: Seat) -> str:
        return f"{seat.address}:{self.port}"
