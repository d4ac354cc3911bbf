"""This process's place among the processes that train together: TF_CONFIG, read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from trainyard.protocol.cluster import Strategy


@dataclass(frozen=True, slots=True)
class Place:
    """`members` are the addresses of every role; without TF_CONFIG there are none, and this process is the chief."""

    members: Mapping[str, tuple[str, ...]]
    role: str
    index: int

    @staticmethod
    def from_tf_config(text: str | None) -> "Place":
        if not text:
            return Place({}, "chief", 0)
        said = json.loads(text)
        members = {role: tuple(addresses) for role, addresses in said["cluster"].items()}
        return Place(members, said["task"]["type"], int(said["task"]["index"]))

    @property
    def name(self) -> str:
        return f"{self.role} {self.index}"

    @property
    def is_chief(self) -> bool:
        """Where the cluster has no role called chief, worker 0 is it."""
        return self.index == 0 and self.role == (
            "worker" if self.members and "chief" not in self.members else "chief"
        )

    @property
    def address(self) -> str:
        return self.members[self.role][self.index]

    @property
    def trainers(self) -> tuple[str, ...]:
        """The addresses of those that train in step under multi_worker, the chief first."""
        return (*self.members.get("chief", ()), *self.members.get("worker", ()))

    @property
    def position(self) -> int:
        """This process's place among the trainers."""
        return self.index + (len(self.members.get("chief", ())) if self.role == "worker" else 0)

    def others(self) -> dict[str, str]:
        """Address of everybody else that listens on a port: what it is."""
        return {
            address: f"{role} {index} at {address}"
            for role, addresses in sorted(self.members.items())
            for index, address in enumerate(addresses)
            if (role, index) != (self.role, self.index) and role != "evaluator"
        }


def strategy_for(said: str | None, place: Place, gpus: int) -> Strategy:
    """What the environment asks for; where it says nothing, what TF_CONFIG and the GPUs here suggest."""
    if said:
        if said not in tuple(Strategy):
            raise SystemExit(f"TRAINYARD_STRATEGY is {said!r}: it may be {', '.join(Strategy)}")
        return Strategy(said)
    if place.members:
        return Strategy.PARAMETER_SERVER if "ps" in place.members else Strategy.MULTI_WORKER
    return Strategy.MIRRORED if gpus > 1 else Strategy.SINGLE
