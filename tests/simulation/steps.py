"""Hosts and steps of a simulated run."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from simulation.cases.case import parse
from simulation.scenario import Scenario
from simulation.scenarios import SCENARIOS
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

ELASTIC = SCENARIOS["elastic"]


def simulate_runs(
    yard: YardTemplate, text: str, scenario: Scenario = ELASTIC
) -> tuple[Result, dict[str, Any]]:
    """Simulate a case, assert that all of its faults were injected, and return the result and the summary of its
    run."""
    ends: list[dict[str, Any]] = []

    def at_end(world: Yard) -> None:
        ends.append(world.summary(world.runs()[0].name) or {})

    faults = parse(text).faults
    result = simulate(yard, scenario, faults=faults, at_end=at_end)
    assert not result.broken, result.broken
    assert set(result.injected) == set(faults)
    return result, ends[0]


def hosts(summary: dict[str, Any]) -> list[int]:
    return [size["hosts"] for size in summary["sizes"]]


def check_the_steps(summary: dict[str, Any]) -> None:
    """Check that each step is counted once, and that confirmed steps are not repeated if the gang left on its own."""
    rows: Sequence[dict[str, Any]] = summary["attempts"]
    for before, after in pairwise(rows):
        if before["ending"] == "resized":
            assert after["from_step"] == before["to_step"]
    assert summary["steps"] == {"done": 40, "planned": 40}
