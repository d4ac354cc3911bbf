"""Taking a seat in an attempt: cluster.json, from the bucket or, for an agent that was restarted, from disk."""

import json

from training.host.bucket import Bucket
from training.host.cluster import Cluster, Seat
from training.host.errors import HostTrouble
from training.host.orders import Order, write_whole
from training.host.places import Places


def take_seat(bucket: Bucket, order: Order, places: Places, *, instance: str) -> tuple[Cluster, Seat]:
    text = bucket.read(f"runs/{order.run}/attempts/{order.attempt}/cluster.json").decode()
    write_whole(places.cluster(order.attempt), text)
    try:
        cluster = Cluster.from_json(json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise HostTrouble(
            f"cluster.json of attempt {order.attempt} is not what this host's software understands ({error!r}); "
            "bake the image anew with the yard's version",
            final=True,
        ) from error
    return _seat_in(cluster, instance)


def recall_seat(places: Places, attempt: int, *, instance: str) -> tuple[Cluster, Seat]:
    return _seat_in(Cluster.from_json(json.loads(places.cluster(attempt).read_text())), instance)


def _seat_in(cluster: Cluster, instance: str) -> tuple[Cluster, Seat]:
    seat = cluster.seat(instance)
    if seat is None:
        raise HostTrouble(f"cluster.json of attempt {cluster.attempt} has no seat for {instance}")
    return cluster, seat
