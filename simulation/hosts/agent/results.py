"""What a run that has ended well leaves in the bucket: a model, and what TensorBoard shows."""

from __future__ import annotations

import json

from simulation.hosts.work import Work
from training.host.bucket import Bucket
from training.host.cluster import Cluster
from trainyard.protocol import keys

VARIABLES_IN_MODEL = {"saved_model.pb": b"a model", "variables/variables.index": b"an index"}


def bring_model(bucket: Bucket, cluster: Cluster, image: str, step: int) -> None:
    """Write the model of this step, with what it is made of beside it."""
    beside = {
        "run": cluster.run,
        "job": cluster.job.get("name"),
        "step": step,
        "image": image,
        "tensorflow": "2.21.0",
        "signatures": ["serving_default"],
    }
    files = VARIABLES_IN_MODEL | {"trainyard.json": json.dumps(beside).encode()}
    for name, content in sorted(files.items()):
        bucket.write(f"{keys.model(cluster.run)}{name}", content)


def bring_events(bucket: Bucket, run: str) -> None:
    bucket.write(f"{keys.tensorboard(run)}events.out.tfevents", b"events")


def missing(cluster: Cluster, work: Work, *, has_checkpoint: bool) -> tuple[str, ...]:
    """Return what the job expects and the program has not left."""
    expected = tuple((cluster.job.get("program") or {}).get("expect") or ())
    lacks = {work.lacks} | (set() if has_checkpoint else {"checkpoint"})
    return tuple(word for word in expected if word in lacks)
