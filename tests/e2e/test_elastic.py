"""A run with min and max workers grows and shrinks with real hosts and a real program."""

from tests.e2e.runs import Runs
from trainyard.client import Run
from trainyard.protocol.cluster import Cluster
from trainyard.values import serialization

LONG = {"steps": 40_000, "step-delay": 0.05, "checkpoint-every": 20}
"""Arguments of a program that runs for over half an hour, so that more hosts are worth it. The test stops it."""


def workers_of(run: Run, attempt: int) -> int:
    """Return the number of workers of an attempt, 0 before it began."""
    document = run.json(f"attempts/{attempt}/cluster.json")
    return len(serialization.read(Cluster, document).workers) if document else 0


def is_due(runs: Runs, run: Run) -> None:
    """Make the next request for more hosts due at once."""
    table = runs.yard.session.resource("dynamodb").Table(runs.yard.table)
    table.update_item(
        Key={"pk": f"run#{run.id}", "sk": "run"},
        UpdateExpression="SET grows = :then",
        ExpressionAttributeValues={":then": "2026-01-01T00:00:00.000Z"},
    )


def test_it_starts_with_what_there_is_shrinks_and_grows(runs: Runs) -> None:
    runs.cloud.fault("refuse", "*", "*", "*", "--slots", "2")
    job = runs.job(
        "as-many",
        cluster={"strategy": "multi_worker", "workers": {"min": 1, "max": 3}},
        program={"args": LONG},
    )
    run = runs.in_mid_training(job)
    assert workers_of(run, 1) == 2

    runs.cloud.fault("interrupt", runs.host_of(run, "worker"))
    runs.until("the remaining host continues", lambda: workers_of(run, 2) == 1)
    reached = runs.checkpoint_of(run)
    runs.until("it saves again", lambda: runs.checkpoint_of(run) > reached)

    runs.cloud.fault("clear")
    is_due(runs, run)
    runs.until("it continues with three", lambda: workers_of(run, 3) == 3)
    reached = runs.checkpoint_of(run)
    runs.until("the three save", lambda: runs.checkpoint_of(run) > reached)
    run.stop()
    runs.finish(run)

    summary = run.summary
    assert [size["hosts"] for size in summary["sizes"]] == [2, 1, 3]
    assert [row["ending"] for row in summary["attempts"]] == ["interrupted", "resized", "stopped"]
    second, third = summary["attempts"][1:]
    assert third["from_step"] == second["to_step"]
    assert summary["resume"]["verified"] is True
    billed = sum(host["dollars"] for host in summary["hosts"])
    assert len(summary["hosts"]) == 4
    assert abs(summary["cost"]["dollars"] - billed) < 0.0001
