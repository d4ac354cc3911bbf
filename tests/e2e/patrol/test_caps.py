"""A run that reaches its cap without patrol, and a run that continues it."""

import pytest

from tests.e2e.runs import Runs
from tests.e2e.watch import ONE, without_rules
from trainyard.client import Run


@pytest.fixture(scope="module")
def capped(runs: Runs) -> Run:
    """Run a job whose hours are used up after two minutes, long before its program ends."""
    job = runs.job("capped", cluster=ONE, program={"args": {"steps": 60000}}, limits={"hours": 0.03})
    with without_rules(runs, "EveryMinute"):
        return runs.run(job)


def step_at_its_cap(run: Run) -> int:
    """Return the step of the last checkpoint."""
    return int(run.json("checkpoints/latest.json")["step"])


def test_a_run_stops_at_its_cap_without_patrol(capped: Run) -> None:
    """The host itself enforces the cap."""
    assert capped.execution.error == "LimitReached", capped.why()
    assert "stopped at its cap of 0.03 hours (limits.hours) after step" in capped.summary["reason"]
    assert f"resume with checkpoints.resume: {capped.id}" in capped.summary["reason"]
    assert step_at_its_cap(capped) > 0


def test_a_new_run_goes_on_from_the_last_checkpoint_of_the_capped_one(runs: Runs, capped: Run) -> None:
    step = step_at_its_cap(capped)
    job = runs.job(
        "resumed",
        cluster=ONE,
        program={"args": {"steps": step + 50}},
        checkpoints={"resume": capped.id},
    )
    run = runs.run(job)
    assert run.succeeded, run.why()
    assert run.summary["attempts"][0]["from_step"] == step
    assert run.summary["steps"]["done"] == step + 50
