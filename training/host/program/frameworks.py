"""The variables through which TensorFlow, PyTorch, and JAX find their cluster. Pure."""

import json

from trainyard.protocol.cluster import Assignment, Cluster, Role

MASTER_PORT = 29500
"""The port on the host of rank 0 where PyTorch's processes meet; PyTorch's default."""
COORDINATOR_PORT = 8476
"""The port of JAX's coordinator on the host of rank 0."""


def rank(cluster: Cluster, assignment: Assignment) -> int | None:
    """Return the rank of a host, or None for an evaluator."""
    return cluster.ranked.index(assignment) if assignment in cluster.ranked else None


def rank_variables(cluster: Cluster, assignment: Assignment) -> dict[str, str]:
    """Return the variables of a cluster with one process a host, as torchrun defines them. Return none for a single
    host, whose program divides its GPUs itself, and none for an evaluator."""
    number = rank(cluster, assignment)
    if number is None or not cluster.strategy.has_several_hosts:
        return {}
    own, hosts, first = str(number), str(len(cluster.ranked)), cluster.ranked[0].address
    return {
        "RANK": own,
        "WORLD_SIZE": hosts,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": own,
        "GROUP_RANK": own,
        "NNODES": hosts,
        "MASTER_ADDR": first,
        "MASTER_PORT": str(MASTER_PORT),
        "JAX_COORDINATOR_ADDRESS": f"{first}:{COORDINATOR_PORT}",
        "JAX_NUM_PROCESSES": hosts,
        "JAX_PROCESS_ID": own,
    }


def task(cluster: Cluster, assignment: Assignment) -> tuple[str, int]:
    """Return the job name and task index in a ClusterSpec that has only `worker` and `ps`."""
    if assignment in cluster.trainers:
        return "worker", cluster.trainers.index(assignment)
    return assignment.role, cluster.hosts_with_role(assignment.role).index(assignment)


def tf_config(cluster: Cluster, assignment: Assignment) -> str | None:
    """Return TF_CONFIG, or None for a single host.

    With multi_worker every host is a `worker` and worker 0 is the chief, as in MultiWorkerMirroredStrategy. With
    parameter_server the roles are TensorFlow's own, unless the job makes the chief worker 0. An evaluator gets the
    cluster without being a member of it.
    """
    if not cluster.strategy.has_several_hosts:
        return None
    if cluster.chief_trains:
        members = {"worker": cluster.trainers, "ps": cluster.servers}
        job_name, index = task(cluster, assignment)
    else:
        members = {role: cluster.hosts_with_role(role) for role in (Role.CHIEF, Role.WORKER, Role.PS)}
        job_name, index = assignment.role, cluster.hosts_with_role(assignment.role).index(assignment)
    addresses = {role: cluster.with_port(assignments) for role, assignments in members.items() if assignments}
    return json.dumps({"cluster": addresses, "task": {"type": job_name, "index": index}})
