"""Machines for the local cloud's EC2: hosts with an address, a disk, a metadata service and processes.

The hypervisor boots, stops and copies machines and reports events. EC2's states, spot rules and API are elsewhere.
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
