"""Machines for the local cloud's EC2: hosts with an address, a disk, a metadata service and processes.

Knows nothing of EC2's states, spot rules or events: it boots, stops and copies machines and says what happened to them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from localcloud.hypervisor.hypervisor import Execution, Hypervisor, Result
from localcloud.hypervisor.machine import ENDPOINT_ADDRESS, METADATA_ADDRESS, Machine, MetadataFacts

__all__ = [
    "ENDPOINT_ADDRESS",
    "METADATA_ADDRESS",
    "Execution",
    "Hypervisor",
    "Machine",
    "MetadataFacts",
    "Result",
]

if TYPE_CHECKING:
    from localcloud.context import Context


def install(context: Context) -> None:
    """Tell the hypervisor which folder of wheels the hosts of each base image see; it need not exist yet."""
    images = context.facts.images
    context.hypervisor.wheels = {name: Path(image.wheels) for name, image in images.items() if image.wheels}
