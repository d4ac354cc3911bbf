"""The use of a host in one attempt (training/host/agent/usage.py). Only the last write of its file is simulated."""

from __future__ import annotations

from simulation.hosts.machine import Machine
from training.host.bucket import Bucket
from training.host.errors import HostTrouble
from trainyard.core.model.host_use import PROCESSORS, HostUse
from trainyard.protocol import keys
from trainyard.protocol.cluster import Assignment, Cluster


def write_use(machine: Machine, bucket: Bucket, cluster: Cluster, assignment: Assignment) -> None:
    """Write the file at the end of the program. A trouble ends nothing: a program does not need this record."""
    use = HostUse(
        instance=machine.instance,
        role=f"{assignment.role} {assignment.index}",
        processors=4,
        memory=16384,
        gpus=0,
        at=[int(machine.now().timestamp())],
        columns={PROCESSORS: [1.0]},
    )
    key = f"{keys.use(cluster.run, cluster.attempt)}{assignment.name}.json"
    try:
        bucket.write(key, use.to_text().encode())
    except HostTrouble as trouble:
        machine.note("cannot write its use", reason=trouble.reason)
