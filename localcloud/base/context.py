"""What every part of the local cloud is given when it is installed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localcloud.base.facts import Facts
    from localcloud.base.state import Store
    from localcloud.machine.hypervisor import Hypervisor

ACCOUNT = "123456789012"
REGION = "us-east-1"
HOST_ENDPOINT = "169.254.169.253"
"""The address at which hosts find the endpoint; Lambdas and the user's clients use 127.0.0.1."""

MachineListener = Callable[[str, str, str], None]

log = logging.getLogger("localcloud")


@dataclass
class Context:
    """One local cloud: where it keeps things, what it knows, and who does what.

    A part is installed with `install(context)`, once, before the first request. What it wants to find again
    after a restart it hands to `context.store.keep(...)` there; `restore` functions run after all installs.
    """

    state: Path
    port: int
    store: Store
    facts: Facts
    hypervisor: Hypervisor
    account: str = ACCOUNT
    region: str = REGION
    machine_listeners: list[MachineListener] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        """Where a process in the server's own namespace finds the endpoint."""
        return f"http://127.0.0.1:{self.port}"
