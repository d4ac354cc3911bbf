"""Taking an assignment in an attempt: cluster.json, from the bucket or, for an agent that was restarted, from disk."""

import json

from training.host.bucket import Bucket
from training.host.cluster import Assignment, Cluster
from training.host.errors import HostTrouble
from training.host.orders import write_whole
from training.host.places import Places
from trainyard.protocol import keys
from trainyard.protocol.orders import Order


def join(bucket: Bucket, order: Order, places: Places, *, instance: str) -> tuple[Cluster, Assignment]:
    text = bucket.read(keys.cluster(order.run, order.attempt)).decode()
    write_whole(places.cluster(order.attempt), text)
    try:
        cluster = Cluster.from_json(json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise HostTrouble(
            f"cluster.json of attempt {order.attempt} is not what this host's software understands ({error!r}); "
            "bake the image anew with the yard's version",
            final=True,
        ) from error
    return _assignment_in(cluster, instance)


def recall_assignment(places: Places, attempt: int, *, instance: str) -> tuple[Cluster, Assignment]:
    return _assignment_in(Cluster.from_json(json.loads(places.cluster(attempt).read_text())), instance)


def _assignment_in(cluster: Cluster, instance: str) -> tuple[Cluster, Assignment]:
    assignment = cluster.assignment(instance)
    if assignment is None:
        raise HostTrouble(f"cluster.json of attempt {cluster.attempt} has no assignment for {instance}")
    return cluster, assignment
