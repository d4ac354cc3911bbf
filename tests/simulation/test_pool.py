"""Two runs in succession, the second on the warm hosts of the first: no host has two runs, none is forgotten, and
each hour is billed to one run."""

from datetime import datetime
from typing import Any

import pytest

from simulation.cases.case import parse
from simulation.scenarios import SCENARIOS
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

Summaries = list[dict[str, Any]]


def simulate_runs(yard: YardTemplate, text: str) -> tuple[Result, Summaries, list[dict[str, Any]]]:
    """Simulate a case and assert that all of its faults were injected. Return the result, the summaries of its
    runs, and their rows."""
    summaries: Summaries = []
    rows: list[dict[str, Any]] = []

    def at_end(world: Yard) -> None:
        for run in world.runs():
            summaries.append(world.summary(run.name) or {})
            rows.append(world.run_row(run.name) or {})

    faults = parse(text).faults
    result = simulate(yard, SCENARIOS["pool"], faults=faults, at_end=at_end)
    assert not result.broken, result.broken
    assert set(result.injected) == set(faults)
    return result, summaries, rows


def hosts(summary: dict[str, Any]) -> set[str]:
    return {host["instance"] for host in summary["hosts"]}


def test_the_second_run_gets_the_hosts_of_the_first_and_launches_none(yard: YardTemplate) -> None:
    result, (first, second), (paid, _) = simulate_runs(yard, "pool")
    assert hosts(first) == hosts(second) == set(first["pool"]["retained"]) == set(second["pool"]["claimed"])
    assert result.calls["ec2.create_fleet"] == 1
    assert first["pool"]["minutes"] == 6
    assert 0 < paid["pool_dollars"] < first["pool"]["most_dollars"]
    assert paid["dollars"] == pytest.approx(first["cost"]["dollars"] + paid["pool_dollars"], abs=1e-5)


def took_seconds(summary: dict[str, Any]) -> float:
    began, started = summary["created"], summary["attempts"][0]["started"]
    return (datetime.fromisoformat(started) - datetime.fromisoformat(began)).total_seconds()


def test_its_program_starts_long_before_a_host_would_have_booted(yard: YardTemplate) -> None:
    _, (first, second), _ = simulate_runs(yard, "pool")
    assert took_seconds(second) < took_seconds(first) / 2


ENDS = [
    # the fault, and whether the second run still gets hosts of the first
    ("host host-1 before wiped #1: dies", False),
    ("host host-1 before wiped #1: hangs", False),
    ("host host-2 after wiped #1: is interrupted with 120 s of notice", False),
    ("event HostSignal wiped host-1 #1: lost", True),
    ("invocation train-launch#2: run twice at the same time", True),
    ("invocation train-launch#2: out of memory", True),
    ("event HostSignal wiped host-1 #1: twice", True),
]


@pytest.mark.parametrize(("text", "warm"), ENDS, ids=[row[0] for row in ENDS])
def test_a_host_that_fails_in_the_warm_pool_is_not_claimed(yard: YardTemplate, text: str, warm: bool) -> None:
    _, (first, second), _ = simulate_runs(yard, f"pool: {text}")
    assert bool(hosts(first) & hosts(second)) is warm or text.endswith("lost")
    assert second["outcome"] == "succeeded"
