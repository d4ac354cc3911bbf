"""An evaluator on a host without a GPU, beside workers that are lost and replaced."""

from tests.e2e.runs import Runs
from trainyard.client import Run

LONG = {"steps": 40_000, "step-delay": 0.05, "checkpoint-every": 20}
"""Arguments of a program that the test stops."""


def roles_of(run: Run, attempt: int) -> dict[str, str]:
    """Return the instances of an attempt by role and index; empty before its start."""
    cluster = run.json(f"attempts/{attempt}/cluster.json")
    return {f"{host['role']} {host['index']}": host["instance"] for host in cluster.get("hosts", ())}


def test_the_evaluator_stays_when_a_worker_goes_and_is_replaced_when_it_goes_itself(runs: Runs) -> None:
    job = runs.job(
        "evaluated",
        cluster={"strategy": "multi_worker", "workers": {"min": 1, "max": 2}, "evaluator": True},
        hardware={"cpu_instance_types": ["c7i.large"], "cpu_roles": ["evaluator"]},
        program={"args": LONG},
    )
    run = runs.in_mid_training(job)
    first = roles_of(run, 1)
    assert set(first) == {"chief 0", "worker 1", "evaluator 0"}

    runs.cloud.fault("interrupt", first["worker 1"])
    runs.until("the others continue", lambda: roles_of(run, 2))
    second = roles_of(run, 2)
    assert second == {"chief 0": first["chief 0"], "evaluator 0": first["evaluator 0"]}
    reached = runs.checkpoint_of(run)
    runs.until("they save", lambda: runs.checkpoint_of(run) > reached)

    runs.cloud.fault("interrupt", second["evaluator 0"])
    runs.until("another evaluator has come", lambda: roles_of(run, 3))
    third = roles_of(run, 3)
    assert third["chief 0"] == first["chief 0"]
    assert third["evaluator 0"] not in first.values()
    reached = runs.checkpoint_of(run)
    runs.until("they save again", lambda: runs.checkpoint_of(run) > reached)
    run.stop()
    runs.finish(run)

    summary = run.summary
    assert [row["ending"] for row in summary["attempts"]] == ["interrupted", "interrupted", "stopped"]
    assert [size["hosts"] for size in summary["sizes"]] == [3, 2]
    assert summary["attempts"][2]["from_step"] > summary["attempts"][1]["from_step"] > 0
    types = {host["instance"]: host["type"] for host in summary["hosts"]}
    assert [types[each["evaluator 0"]] for each in (first, third)] == ["c7i.large", "c7i.large"]
    runs.until_log(run, "evaluator-0", "starting at step")
