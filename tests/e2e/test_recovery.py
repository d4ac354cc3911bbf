"""Hosts that go away in mid-training: the run goes on from its last checkpoint."""

import pytest

from tests.e2e.runs import Runs
from trainyard.client import Run

LONG = {"program": {"args": {"steps": 400, "step-delay": 0.05, "checkpoint-every": 10}}}


def it_resumed(run: Run) -> None:
    """Two attempts, the second from a step that the first had reached, and the loss where it was."""
    assert run.succeeded, run.why()
    first, second = run.summary["attempts"]
    assert first["ending"] in ("interrupted", "lost"), first
    assert second["from_step"] > 0
    assert f"starting at step {second['from_step']} of 400" in run.text("attempts/2/logs/chief-0.log")
    proof = run.summary["resume"]
    assert (proof["attempts"], proof["resumed_at"]) == (2, [second["from_step"]])
    assert proof["restores"] == [{"step": second["from_step"], "verified": True}]
    assert proof["verified"] is True
    assert first["ending"] == "lost" or proof["steps_lost"] == 0, (
        "an interrupted gang leaves at its checkpoint"
    )
    assert run.json("metrics.json")["step"] == 400
    before, after = (
        [line for line in run.text(f"attempts/{n}/logs/chief-0.log").splitlines() if " | step " in line]
        for n in (1, 2)
    )
    assert float(after[0].split()[-1]) < float(before[0].split()[-1]), "the loss did not start over"


@pytest.mark.parametrize("role", ["chief", "worker"])
def test_an_interrupted_host_is_replaced_and_training_resumes(runs: Runs, role: str) -> None:
    run = runs.in_mid_training(runs.job(f"interrupted-{role}", **LONG))
    host = runs.host_of(run, role)
    runs.cloud.fault("interrupt", host, "--seconds", "10")
    runs.finish(run)
    it_resumed(run)
    assert host in run.text("timeline.jsonl")


@pytest.mark.parametrize("role", ["chief", "worker"])
def test_a_host_that_vanishes_is_replaced_and_training_resumes(runs: Runs, role: str) -> None:
    run = runs.in_mid_training(runs.job(f"killed-{role}", **LONG))
    host = runs.host_of(run, role)
    runs.cloud.fault("kill", host)
    it_resumed(runs.finish(run))


def test_restarts_end_where_the_job_says(runs: Runs) -> None:
    job = runs.job("no-restarts", **LONG, limits={"restarts": 0})
    run = runs.in_mid_training(job)
    runs.cloud.fault("kill", runs.host_of(run, "worker"))
    runs.finish(run)
    assert run.execution.status == "FAILED"
    assert run.summary["outcome"] == "failed"
    assert len(run.summary["attempts"]) == 1
    assert "restart" in run.summary["reason"], run.summary["reason"]


def test_an_execution_that_is_stopped_by_hand_leaves_no_host(runs: Runs) -> None:
    run = runs.in_mid_training(runs.job("stopped-by-hand", **LONG))
    run.stop()
    assert runs.living() == []
    summary = runs.until("a summary", lambda: run.summary)
    assert (summary["outcome"], summary["error"]) == ("failed", "Aborted")
    assert "stopped by hand" in summary["reason"]
