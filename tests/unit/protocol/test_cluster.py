"""Files cluster.json of the last version are read. Bad files are refused with the wrong key."""

import json
from pathlib import Path
from typing import Any

import pytest

from training.host.program import frameworks
from trainyard.core.model.job import Job
from trainyard.protocol import cluster
from trainyard.protocol.cluster import Checkpoint, Cluster, Role
from trainyard.values import serialization

LAST_VERSION = sorted(Path(__file__).with_name("last_version").glob("cluster-*.json"))
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
}


def read(**changes: Any) -> Cluster:
    return cluster.read(json.dumps(DOCUMENT | changes))


def tf_config_of(of: Cluster, instance: str) -> Any:
    assignment = of.assignment(instance)
    assert assignment
    text = frameworks.tf_config(of, assignment)
    return json.loads(text) if text else None


def lacking(written: Any, read: Any) -> Any:
    """Return the keys that were read differently. Keys of this version alone do not count."""
    if not isinstance(written, dict) or not isinstance(read, dict):
        return {} if written == read else written
    found = {key: lacking(value, read.get(key)) for key, value in written.items()}
    return {key: value for key, value in found.items() if value != {}}


@pytest.mark.parametrize("path", LAST_VERSION, ids=lambda path: path.stem)
def test_what_the_last_version_wrote_is_read(path: Path) -> None:
    written = json.loads(path.read_text())
    found, job = cluster.read(path.read_text()), serialization.read(Job, written["job"])
    assert serialization.to_json(found) == {key: value for key, value in written.items() if key != "job"}
    assert lacking(written["job"], serialization.to_json(job)) == {}
    assert found.chief_trains is job.cluster.chief_trains
    assert len(found.workers) == job.cluster.workers


def test_the_last_version_has_written_every_kind_of_cluster() -> None:
    found = [cluster.read(path.read_text()) for path in LAST_VERSION]
    assert {each.role for known in found for each in known.assignments} == set(Role)
    assert {known.checkpoint is None for known in found} == {True, False}


HOST = DOCUMENT["hosts"][1]
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no run", {"run": None}, "run: found None, expected str"),
    ("an attempt in words", {"attempt": "two"}, "attempt: found 'two', expected int"),
    (
        "a strategy of a later version",
        {"strategy": "pipeline"},
        "strategy: found 'pipeline', expected one of",
    ),
    ("a role of a later version", {"hosts": [HOST | {"role": "judge"}]}, r"hosts\[0\]\.role: found 'judge'"),
    ("no list of hosts", {"hosts": "i-1"}, "hosts: found 'i-1'"),
    ("a host without an address", {"hosts": [{"instance": "i-1"}]}, r"hosts\[0\]\.address: is missing"),
    ("no chief", {"hosts": [HOST]}, "hosts: found no chief or several, expected one"),
    ("two chiefs", {"hosts": [DOCUMENT["hosts"][0]] * 2}, "hosts: found no chief or several"),
    ("a checkpoint without a key", {"checkpoint": {"step": 3}}, r"checkpoint\.key: is missing"),
    ("a deadline in words", {"deadline": "tomorrow"}, "deadline: found 'tomorrow', expected datetime"),
]


@pytest.mark.parametrize(("changes", "fault"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_no_cluster_is_refused_by_name(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read(**changes)


@pytest.mark.parametrize("key", sorted({"run", "attempt", "strategy", "hosts", "deadline"}))
def test_a_missing_key_is_refused_by_name(key: str) -> None:
    text = json.dumps({name: value for name, value in DOCUMENT.items() if name != key})
    with pytest.raises(ValueError, match=f"{key}: is missing"):
        cluster.read(text)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"text"'])
def test_a_text_without_a_cluster_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expect|expected"):
        cluster.read(text)


def test_a_later_version_may_add_keys_and_an_earlier_one_may_lack_those_with_defaults() -> None:
    later = read(color="red", hosts=[host | {"rack": 3} for host in DOCUMENT["hosts"]])
    earlier = cluster.read(
        json.dumps({key: value for key, value in DOCUMENT.items() if key not in ("port", "checkpoint")})
    )
    assert later == read()
    assert earlier == read(checkpoint=None)


def test_every_host_of_a_multi_worker_cluster_is_a_worker_and_the_chief_is_worker_0() -> None:
    found = read()
    members = {"worker": ["10.0.1.5:2222", "10.0.1.6:2222"]}
    assert tf_config_of(found, "i-1") == {"cluster": members, "task": {"type": "worker", "index": 0}}
    assert tf_config_of(found, "i-2") == {"cluster": members, "task": {"type": "worker", "index": 1}}
    assert found.checkpoint == Checkpoint(120, "runs/digits-1a2b3c4d/checkpoints/00000120/")


def test_a_host_that_the_attempt_was_made_without_has_no_assignment() -> None:
    assert read(checkpoint=None).assignment("i-9") is None
