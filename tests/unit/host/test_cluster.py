import json
from typing import Any

from training.host.cluster import Checkpoint, Cluster

DOCUMENT: dict[str, Any] = {
    "run": "digits-1a2b3c4d",
    "attempt": 2,
    "strategy": "multi_worker",
    "port": 2222,
    "hosts": [
        {"instance": "i-1", "role": "chief", "index": 0, "address": "10.0.1.5"},
        {"instance": "i-2", "role": "worker", "index": 1, "address": "10.0.1.6"},
    ],
    "checkpoint": {"step": 120, "key": "runs/digits-1a2b3c4d/checkpoints/00000120/"},
    "deadline": "2026-11-20T06:00:00.000Z",
    "job": {"program": {"module": "training.programs.digits"}},
}


def tf_config_of(cluster: Cluster, instance: str) -> Any:
    assignment = cluster.assignment(instance)
    assert assignment
    text = cluster.tf_config(assignment)
    return json.loads(text) if text else None


def test_everybody_in_a_multi_worker_cluster_is_a_worker_and_the_chief_is_worker_0() -> None:
    cluster = Cluster.from_json(DOCUMENT)
    members = {"worker": ["10.0.1.5:2222", "10.0.1.6:2222"]}
    assert tf_config_of(cluster, "i-1") == {"cluster": members, "task": {"type": "worker", "index": 0}}
    assert tf_config_of(cluster, "i-2") == {"cluster": members, "task": {"type": "worker", "index": 1}}
    assert cluster.checkpoint == Checkpoint(120, "runs/digits-1a2b3c4d/checkpoints/00000120/")


def test_a_host_that_the_attempt_was_made_without_has_no_assignment() -> None:
    assert Cluster.from_json(DOCUMENT | {"checkpoint": None}).assignment("i-9") is None
