"""Permissions that are missing for seconds, because IAM applies changes late, and permissions that stay missing."""

import pytest

from simulation.cases.case import parse
from simulation.scenarios import SCENARIOS
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

FIRST = {
    "train-await-hosts": "dynamodb.transact_write_items",
    "train-train": "dynamodb.transact_write_items",
    "train-launch": "dynamodb.query",
}


def denied(yard: YardTemplate, function: str, times: int) -> tuple[Result, str]:
    """Return the result, and the reason in the summary."""
    points = (f"request {function}#{number}/1 {FIRST[function]}" for number in range(1, times + 1))
    case = parse("train: " + " + ".join(f"{point}: access denied" for point in points))
    reasons: list[str] = []

    def look(world: Yard) -> None:
        assert len(world.plan.injected) == times
        reasons.extend((world.summary(each.name) or {})["reason"] for each in world.runs())

    return simulate(yard, SCENARIOS["train"], faults=case.faults, at_end=look), reasons[0]


@pytest.mark.parametrize("function", FIRST)
@pytest.mark.parametrize("times", [1, 2])
def test_a_permission_that_is_missing_for_seconds_ends_no_run(
    yard: YardTemplate, function: str, times: int
) -> None:
    """The second attempt comes after 15 s, the third after another 30 s."""
    result, _ = denied(yard, function, times)
    assert not result.broken
    assert "SUCCEEDED" in result.outcome


@pytest.mark.parametrize("function", FIRST)
def test_a_permission_that_stays_missing_ends_the_run_and_is_named(yard: YardTemplate, function: str) -> None:
    result, reason = denied(yard, function, 3)
    assert not result.broken
    assert "AccessDenied" in result.outcome
    assert "AccessDenied: The role may not dynamodb:" in reason


def test_a_removed_permission_works_for_a_while_and_is_named_once_it_is_needed_again(
    yard: YardTemplate,
) -> None:
    point = f"request train-train#1/1 {FIRST['train-train']}"
    removed = f"{point}: its permission was removed, and works for 10 s more"
    reasons: list[str] = []

    def look(world: Yard) -> None:
        reasons.extend((world.summary(each.name) or {})["reason"] for each in world.runs())

    once = simulate(yard, SCENARIOS["train"], faults=parse(f"train: {removed}").faults)
    assert "SUCCEEDED" in once.outcome
    case = parse(f"train: {removed} + host host-1 after progress #2: dies")
    again = simulate(yard, SCENARIOS["train"], faults=case.faults, at_end=look)
    assert not (*once.broken, *again.broken)
    assert "AccessDenied" in again.outcome
    assert "AccessDenied: The role may not dynamodb:" in reasons[0]
