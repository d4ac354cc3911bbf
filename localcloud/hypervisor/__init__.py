"""Machines for the local cloud's EC2: hosts with an address, a disk, a metadata service and processes.

Knows nothing of EC2's states, spot rules or events: it boots, stops and copies machines and says what happened to them.
"""

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
