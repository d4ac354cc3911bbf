"""Machines for the local cloud's EC2: hosts with an address, a disk, a metadata service and processes.

Knows nothing of EC2's states, spot rules or events: it boots, stops and copies machines and says what happened to them.
"""

from __future__ import annotations

from localcloud.machine.hypervisor.firewall import Rule, Rules
from localcloud.machine.hypervisor.host import Execution, HostNotRunningError, Result
from localcloud.machine.hypervisor.hosts import Hypervisor
from localcloud.machine.hypervisor.machine import ENDPOINT_ADDRESS, METADATA_ADDRESS, InstanceDetails, Machine

__all__ = [
    "ENDPOINT_ADDRESS",
    "METADATA_ADDRESS",
    "Execution",
    "HostNotRunningError",
    "Hypervisor",
    "InstanceDetails",
    "Machine",
    "Result",
    "Rule",
    "Rules",
]
