"""The surroundings of machines."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Protocol, TypeVar

from simulation.hosts.delays import Delays
from simulation.hosts.environment import CommandEnd, Host
from simulation.hosts.faults import AffectedHost, Fault, When
from simulation.hosts.flow import Sleep
from simulation.hosts.gang import Gang
from simulation.hosts.life import Life
from simulation.world.world import World
from trainyard.core.model.job import Job
from trainyard.protocol.cluster import Cluster

MachineType = TypeVar("MachineType", contravariant=True)
"""The class of machines, which machine.py defines."""


class Site(Protocol[MachineType]):
    """Implemented by machines.Machines."""

    world: World
    delays: Delays
    is_exact: bool
    puts_metrics: bool
    has_agent: Callable[[Host], bool]
    is_registered: Callable[[Host], bool]
    on_silence: Callable[[str, bool], None] | None

    def fault(self, host: AffectedHost, stage: str, when: When) -> Fault | None: ...

    def life_of(self, machine: MachineType) -> Life: ...

    def gang(self, cluster: Cluster, job: Job, *, step: int) -> Gang: ...

    def document(
        self, machine: MachineType, name: str, parameters: Mapping[str, Sequence[str]]
    ) -> Generator[float | Sleep, None, CommandEnd]: ...
