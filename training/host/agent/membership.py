"""Read cluster.json from the bucket or, after a restart of the agent, from the disk."""

from training.host.bucket import Bucket
from training.host.errors import HostTrouble, OtherVersion
from training.host.orders import write_whole
from training.host.paths import Paths
from trainyard.protocol import cluster, keys
from trainyard.protocol.cluster import Assignment, Cluster
from trainyard.protocol.orders import Order


def join(bucket: Bucket, order: Order, paths: Paths, *, instance: str) -> tuple[Cluster, Assignment]:
    """Return the cluster of an attempt and this host's assignment. Keep the file on the disk."""
    text = bucket.read(keys.cluster(order.run, order.attempt)).decode()
    write_whole(paths.cluster(order.attempt), text)
    return recall(paths, order.attempt, instance=instance)


def recall(paths: Paths, attempt: int, *, instance: str) -> tuple[Cluster, Assignment]:
    """Return the cluster and the assignment that `join` has kept on the disk."""
    try:
        known = cluster.read(paths.cluster(attempt).read_text())
    except ValueError as error:
        raise OtherVersion(f"cluster.json of attempt {attempt}", error) from error
    assignment = known.assignment(instance)
    if assignment is None:
        raise HostTrouble(f"cluster.json of attempt {attempt} has no assignment for {instance}")
    return known, assignment
