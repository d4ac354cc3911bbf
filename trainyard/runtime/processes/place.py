"""This process's place in the cluster, read from TF_CONFIG."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from trainyard.protocol.cluster import Strategy
from trainyard.runtime.environment import Environment


@dataclass(frozen=True, slots=True)
class Place:
    """The place of this process. Without TF_CONFIG, it is the chief and has no members."""

    members: Mapping[str, tuple[str, ...]]
    """The addresses of every role."""
    role: str
    index: int

    @staticmethod
    def from_tf_config(text: str | None) -> "Place":
        if not text:
            return Place({}, "chief", 0)
        config = json.loads(text)
        members = {role: tuple(addresses) for role, addresses in config["cluster"].items()}
        return Place(members, config["task"]["type"], int(config["task"]["index"]))

    @property
    def name(self) -> str:
        return f"{self.role} {self.index}"

    @property
    def is_chief(self) -> bool:
        """Return True on the chief. In a cluster without this role, worker 0 is the chief."""
        return self.index == 0 and self.role == (
            "worker" if self.members and "chief" not in self.members else "chief"
        )

    @property
    def address(self) -> str:
        return self.members[self.role][self.index]

    @property
    def trainers(self) -> tuple[str, ...]:
        """Return the addresses of the processes that train in step, the chief first."""
        return (*self.members.get("chief", ()), *self.members.get("worker", ()))

    @property
    def position(self) -> int:
        """Return the index of this process among the trainers."""
        return self.index + (len(self.members.get("chief", ())) if self.role == "worker" else 0)

    def others(self) -> dict[str, str]:
        """Return the names of the other listening processes by address."""
        return {
            address: f"{role} {index} at {address}"
            for role, addresses in sorted(self.members.items())
            for index, address in enumerate(addresses)
            if (role, index) != (self.role, self.index) and role != "evaluator"
        }


def strategy_for(name: str | None, place: Place, gpus: int) -> Strategy:
    """Return the strategy of the environment, else the strategy that TF_CONFIG and the GPUs suggest."""
    if name:
        if name not in tuple(Strategy):
            raise SystemExit(f"TRAINYARD_STRATEGY is {name!r}; allowed are {', '.join(Strategy)}")
        return Strategy(name)
    if place.members:
        return Strategy.PARAMETER_SERVER if "ps" in place.members else Strategy.MULTI_WORKER
    return Strategy.MIRRORED if gpus > 1 else Strategy.SINGLE


def refuse_other_jobs(call: str, place: Place, environment: Environment) -> None:
    """Raise SystemExit if `mesh` or `serve` of trainyard.runtime cannot work with this job."""
    if place.role == "evaluator":
        raise SystemExit(
            f"trainyard.runtime.{call} has no evaluator: remove cluster.evaluator from the job file"
        )
    if "ps" in place.members or "chief" in place.members:
        raise SystemExit(
            f"trainyard.runtime.{call} has no parameter servers: use cluster.strategy: multi_worker in the job file"
        )
    if environment.sharded and len(place.trainers) > 1:
        raise SystemExit(
            f"trainyard.runtime.{call} needs all data on every host, but the job has `sharding: file` for "
            f"data.{', data.'.join(sorted(environment.sharded))}: remove it"
        )
