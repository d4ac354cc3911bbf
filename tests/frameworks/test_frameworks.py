"""The examples of other frameworks, as their pages in docs/recipes say: untouched scripts, on two hosts each."""

import time
from typing import Any

import pytest

from demo.local import ROOT, Cloud
from trainyard.client import Run, Yard

EXAMPLES = ROOT / "examples" / "frameworks"
NAMES = ["pytorch", "jax"]
SECONDS = 800


def submitted(yard: Yard, name: str, **changes: Any) -> Run:
    return yard.submit(EXAMPLES / f"{name}.yaml", set=changes)


def ended_well(run: Run) -> list[str]:
    """How its attempts ended."""
    run.wait(SECONDS, every=0.5)
    assert run.succeeded, run.why()
    return [attempt["ending"] for attempt in run.summary["attempts"]]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_it_trains_on_two_hosts_and_shows_how_far_it_is(yard: Yard, name: str) -> None:
    run = submitted(yard, name)
    assert ended_well(run) == ["finished"]
    assert run.summary["steps"]["done"] == 400
    assert run.json("metrics.json")["accuracy"] > 0.9
    assert any(key.startswith("model/") for key in run.keys)
    assert "1 of 2" in run.log("worker-1")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_interrupted_on_one_host_it_goes_on_from_what_all_have_saved(
    cloud: Cloud, yard: Yard, name: str
) -> None:
    run = submitted(yard, name, **{"args.steps": 4000})
    while not run.json("checkpoints/latest.json"):
        assert not run.json("summary.json"), run.why()
        time.sleep(0.5)
    hosts = run.json("attempts/1/cluster.json")["hosts"]
    worker = next(host["instance"] for host in hosts if host["role"] == "worker")
    cloud.fault("interrupt", worker, "--seconds", "60")
    endings = ended_well(run)
    assert len(endings) == 2
    assert endings[-1] == "finished"
    said = run.log("worker-1", 1)
    assert "leaves at step" in said, said
    assert run.summary["steps"]["done"] == 4000
    assert run.summary["resume"]["resumed_at"]
