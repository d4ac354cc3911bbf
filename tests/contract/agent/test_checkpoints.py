"""Restored checkpoints: verified, with the previous one in place of a damaged one."""

import hashlib
import json
from typing import Any

import pytest

from tests.contract.agent.host import INSTANCE, Yard
from tests.contract.conftest import eventually

SHOWS = """
import os, pathlib, time

folder = pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"])
for path in sorted(folder.rglob("*")):
    if path.is_file():
        print("restored", path.relative_to(folder), path.read_text(), flush=True)
"""
FOLLOWS = """
import os, pathlib, signal, sys, time

folder, seen = pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"]), set()
while True:
    for path in folder.rglob("variables"):
        if path.parent.name not in seen:
            seen.add(path.parent.name)
            print("saw", path.parent.name, path.read_text(), flush=True)
    time.sleep(0.1)
"""
TWO_HOSTS = [
    {"instance": INSTANCE, "role": "worker", "index": 1, "address": "10.0.1.5"},
    {"instance": "i-1", "role": "chief", "index": 0, "address": "10.0.1.6"},
]


def put_checkpoints(yard: Yard, *steps: int, damaged: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """Upload checkpoints in the runtime's format, newest first. Return the contents of latest.json."""
    manifests = []
    for step in steps:
        weights = f"weights of {step:03d}"
        sums = {"variables": hashlib.sha256(weights.encode()).hexdigest()}
        files = {"variables": weights, "trainyard-metadata.json": json.dumps({"step": step, "files": sums})}
        key, stored = f"runs/{yard.run}/checkpoints/{step:08d}/", {}
        for name, text in files.items():
            below = f"{step:08d}/{name}"
            yard.put(key + below, text.replace("weights", "weighty") if step in damaged else text)
            stored[below] = [len(text), 1_700_000_000_000_000_000 + step, 0o644, f"{step:08d}/{below}"]
        document = {"files": stored, "links": {}, "folders": {f"{step:08d}": [1, 0o755]}}
        yard.put(f"{key[:-1]}.json", json.dumps(document))
        manifests.append(
            {"step": step, "key": key, "kind": "step", "at": "2026-11-20T12:00:00.000Z", "at_step": step}
        )
    latest = manifests[0] | {"before": manifests[1:]}
    yard.put(f"runs/{yard.run}/checkpoints/latest.json", json.dumps(latest))
    return manifests


def named(manifest: dict[str, Any]) -> dict[str, Any]:
    return {"step": manifest["step"], "key": manifest["key"]}


def test_a_host_that_restores_alone_goes_on_with_the_one_before_a_damaged_one(yard: Yard) -> None:
    yard.prepare(SHOWS)
    newest, before, _ = put_checkpoints(yard, 120, 80, 40, damaged=(120,))
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1, checkpoint=named(newest))
    assert "is damaged: variables has the SHA-256" in yard.hear("started")["instead"]
    assert yard.hear("finished")["step"] == 80
    assert "restored 00000080/variables weights of 080" in yard.log()
    assert "00000120/variables" not in yard.log()
    assert (yard.latest["key"], [older["step"] for older in yard.latest["before"]]) == (before["key"], [40])


def test_the_hosts_of_a_cluster_restore_the_one_before_it_together_in_the_next_attempt(yard: Yard) -> None:
    yard.prepare(SHOWS)
    newest, before = put_checkpoints(yard, 120, 80, damaged=(120,))
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1, checkpoint=named(newest), strategy="multi_worker", hosts=TWO_HOSTS)
    failed = yard.hear("failed")
    assert (failed["kind"], failed["final"]) == ("checkpoint", False)
    assert "of step 80, is restored instead, in the next attempt, by all hosts" in failed["reason"]
    assert yard.latest["key"] == before["key"]


@pytest.mark.parametrize("steps", [(120,), (120, 80)])
def test_when_all_are_damaged_the_run_is_over(yard: Yard, steps: tuple[int, ...]) -> None:
    yard.prepare(SHOWS)
    newest = put_checkpoints(yard, *steps, damaged=steps)[0]
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1, checkpoint=named(newest))
    failed = yard.hear("failed")
    assert (failed["kind"], failed["final"]) == ("host", True)
    assert "no earlier checkpoint is kept" in failed["reason"]


def test_instead_of_a_checkpoint_that_was_replaced_the_newest_is_restored(yard: Yard) -> None:
    yard.prepare(SHOWS)
    put_checkpoints(yard, 120)
    yard.start_agent()
    yard.hear("ready")
    other = f"runs/{yard.run}/checkpoints/00000040/"
    yard.order("start", 1, checkpoint={"step": 40, "key": other})
    yard.hear("finished")
    assert f"{other} was replaced; the checkpoint of step 120 is restored instead" in yard.log()
    assert "weights of 120" in yard.log()


@pytest.mark.parametrize("strategy", ["multi_worker", "parameter_server"])
def test_an_evaluator_sees_every_new_checkpoint(strategy: str, yard: Yard) -> None:
    yard.prepare(FOLLOWS)
    first = put_checkpoints(yard, 40)[0]
    yard.start_agent()
    yard.hear("ready")
    hosts = [
        {"instance": "i-1", "role": "chief", "index": 0, "address": "10.0.1.6"},
        {"instance": INSTANCE, "role": "evaluator", "index": 0, "address": "10.0.1.5"},
    ]
    yard.order("start", 1, checkpoint=named(first), strategy=strategy, hosts=hosts)
    eventually(lambda: "saw 00000040 weights of 040" in yard.log(name="evaluator-0"))
    put_checkpoints(yard, 80, 40)
    eventually(lambda: "saw 00000080 weights of 080" in yard.log(name="evaluator-0"))
    yard.order("stop", 1)
    assert yard.hear("stopped")["why"] == "asked"
