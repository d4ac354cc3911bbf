"""What every EC2 action needs besides moto's store: the facts, the machines, the room there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localcloud.base.facts import Facts
    from localcloud.machine.hypervisor import Hypervisor
    from localcloud.services.ec2.capacity.pools import Capacity
    from localcloud.services.ec2.instances.lifecycle import Lifecycle
    from localcloud.services.ec2.store.records import Timers


@dataclass(frozen=True)
class World:
    """Set once, when the local cloud's EC2 is installed; moto builds its response objects by itself."""

    facts: Facts
    hypervisor: Hypervisor
    capacity: Capacity
    lifecycle: Lifecycle
    timers: Timers


_world: list[World] = []


def world() -> World:
    """The one world of this process."""
    return _world[-1]


def enter(new: World) -> None:
    """Make `new` the world."""
    _world.append(new)
