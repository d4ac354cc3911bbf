"""The gang: which host has which role, what cluster.json says, which hosts are missing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lambdas.core import wire
from lambdas.core.job import Job, Role

PORT = 2222


@dataclass(frozen=True)
class Seat:
    """One host's place in the cluster."""

    instance: str
    role: Role
    index: int
    address: str


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint in the bucket: the one every host restores, and no other."""

    step: int
    key: str


def seats(addresses: Mapping[str, str]) -> tuple[Seat, ...]:
    """A seat per instance id (to address); sorted by id, the first is chief.

    Sorting makes a retried call give every host the seat it had before.
    """
    return tuple(
        Seat(instance, Role.WORKER if index else Role.CHIEF, index, addresses[instance])
        for index, instance in enumerate(sorted(addresses))
    )


def cluster_document(
    job: Job,
    *,
    run: str,
    attempt: int,
    seats: Iterable[Seat],
    checkpoint: Checkpoint | None,
    deadline: datetime,
) -> dict[str, Any]:
    """What `runs/<run>/attempts/<attempt>/cluster.json` holds."""
    return {
        "run": run,
        "attempt": attempt,
        "strategy": job.cluster.strategy.value,
        "port": PORT,
        "hosts": wire.to_json(tuple(seats)),
        "checkpoint": wire.to_json(checkpoint),
        "deadline": wire.stamp(deadline),
        "job": job.to_json(),
    }


def missing(job: Job, survivors: Iterable[str]) -> int:
    """How many hosts to launch beside those that survive."""
    return max(0, job.gang - len(set(survivors)))


def checkpoint_of(latest: Mapping[str, Any] | None) -> Checkpoint | None:
    """The checkpoint that `checkpoints/latest.json` names; None when there is none yet."""
    return Checkpoint(int(latest["step"]), str(latest["key"])) if latest else None
