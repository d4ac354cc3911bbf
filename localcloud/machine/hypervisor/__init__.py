"""Machines for the local cloud's EC2: hosts with an address, a disk, a metadata service and processes.

Knows nothing of EC2's states, spot rules or events: it boots, stops and copies machines and says what happened to them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from localcloud.machine.hypervisor.hosts import Execution, HostNotRunningError, Hypervisor, Result
from localcloud.machine.hypervisor.machine import ENDPOINT_ADDRESS, METADATA_ADDRESS, Machine, MetadataFacts

__all__ = [
    "ENDPOINT_ADDRESS",
    "METADATA_ADDRESS",
    "Execution",
    "HostNotRunningError",
    "Hypervisor",
    "Machine",
    "MetadataFacts",
    "Result",
]

if TYPE_CHECKING:
    from localcloud.base.context import Context


def install(context: Context) -> None:
    """Tell the hypervisor what the base images of the facts carry."""
    for image_id, image in context.facts.images.items():
        wheels = Path(image.wheels) if image.wheels else None
        context.hypervisor.provide_base_image(image_id, image.files, wheels)
