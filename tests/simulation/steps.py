"""Hosts and steps of a simulated run."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from simulation.cases.case import parse
from simulation.scenarios import SCENARIOS, Scenario
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

ELASTIC = SCENARIOS["elastic"]


def simulate_runs(
    yard: YardTemplate, text: str, scenario: Scenario = ELASTIC
) -> tuple[Result, dict[str, Any]]:
    """The world of this case, whose faults must all have struck, and its run's summary."""
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
    """Each is counted once, and those that were confirmed are not done again where the gang left by itself."""
    rows: Sequence[dict[str, Any]] = summary["attempts"]
    for before, after in pairwise(rows):
        if before["ending"] == "resized":
            assert after["from_step"] == before["to_step"]
    assert summary["steps"] == {"done": 40, "planned": 40}
