"""The examples of other frameworks in docs/examples: unchanged scripts, on two hosts each."""

import re
from typing import Any

import pytest

from scripts.local_yard import ROOT, Cloud
from tests.frameworks.waiting import SECONDS, until
from trainyard.client import Run, Yard

EXAMPLES = ROOT / "examples" / "frameworks"
NAMES = ["pytorch", "jax"]
PRINTED_EVERY = 10
"""Steps between two lines of a script."""


def submitted(yard: Yard, name: str, **changes: Any) -> Run:
    return yard.submit(EXAMPLES / f"{name}.yaml", set=changes)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_it_trains_on_two_hosts_and_shows_how_far_it_is(yard: Yard, name: str) -> None:
    run = submitted(yard, name)
    run.wait(SECONDS, every=0.5)
    assert run.succeeded, run.why()
    assert [attempt["ending"] for attempt in run.summary["attempts"]] == ["finished"]
    assert run.summary["steps"]["done"] == 400
    assert run.json("metrics.json")["accuracy"] > 0.9
    assert any(key.startswith("model/") for key in run.keys)
    assert "1 of 2" in run.log("worker-1")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_interrupted_on_one_host_it_goes_on_from_the_step_at_which_all_have_left(
    cloud: Cloud, yard: Yard, name: str
) -> None:
    """The program has more steps than it can finish, so it still trains on a busy machine when it is stopped."""
    run = submitted(yard, name, **{"args.steps": 1_000_000})
    until(run, lambda: run.json("checkpoints/latest.json"))
    hosts = run.json("attempts/1/cluster.json")["hosts"]
    worker = next(host["instance"] for host in hosts if host["role"] == "worker")
    cloud.fault("interrupt", worker, "--seconds", "60")
    until(run, lambda: "continues from step" in run.log("worker-1", 2))
    run.stop()
    run.wait(SECONDS, every=0.5)
    said = run.log("worker-1", 1)
    left = re.search(r"leaves at step (\d+)", said)
    assert left, said
    assert f"continues from step {left[1]}\n" in run.log("worker-1", 2)
    assert len(run.summary["attempts"]) == 2
    assert run.summary["outcome"] == "stopped"
    (resumed_at,) = run.summary["resume"][
        "resumed_at"
    ]  # the last step that was printed before the files were there
    assert int(left[1]) - PRINTED_EVERY < resumed_at <= int(left[1])
