"""Dry runs: they launch, write, claim and send nothing, for any job and any state of the yard."""

import json
from typing import Any

import pytest

from simulation.scenario import Scenario, job
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

TWO = {"strategy": "multi_worker", "workers": 2}


def planned(template: YardTemplate, body: bytes, *before: tuple[str, bytes]) -> tuple[Result, dict[str, Any]]:
    """Upload a job file for a dry run after other files. Return the result and the output of its execution."""
    answers: list[dict[str, Any]] = []

    def begin(yard: Yard) -> None:
        for key, other in before:
            yard.people.upload(key, other)
        yard.after(60, lambda: yard.people.upload("jobs/by/alice/wanted.plan.json", body), "an upload")

    def over(yard: Yard) -> bool:
        return len(yard.runs()) > len(before) and yard.all_over()

    def at_end(yard: Yard) -> None:
        execution = next(each for each in yard.runs() if each.name.startswith("wanted-"))
        answers.append(json.loads(execution.output or "{}"))
        name, table = execution.name, yard.template.table.name
        assert not list(yard.dynamodb.rows(table, f"run#{name}"))
        assert yard.dynamodb.row(table, "open", name) is None
        assert not list(yard.s3.keys(yard.bucket, f"runs/{name}/"))
        assert not any(name in notice.text for notice in yard.notifications.published)

    scenario = Scenario("plan", "the plan of a job", begin, gang=2, over=over)
    result = simulate(template, scenario, at_end=at_end)
    (answer,) = answers
    return result, answer


def test_the_plan_says_what_would_be_tried_and_what_not(yard: YardTemplate) -> None:
    result, answer = planned(yard, job("wanted", TWO))
    assert not result.broken, result.broken
    assert result.outcome.endswith("SUCCEEDED")
    assert not result.calls.get("ec2.create_fleet")
    assert answer["kind"] == "outlook"
    candidates = answer["plan"]["candidates"]
    assert {each["type"] for each in candidates} <= {"g6.xlarge", "g5.xlarge", "g4dn.xlarge"}
    spot = [each["price"] for each in candidates if each["market"] == "spot"]
    assert spot == sorted(spot)
    assert (answer["plan"]["gang"], answer["plan"]["hourly_cap"]) == (2, 8.0)
    assert all(vcpus > 0 for vcpus in answer["quotas"].values())


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"limits": {"hours": -1}}, "JobRefused"),
        ({"hardware": {"instance_types": ["g6.xlarge"], "max_dollars_per_hour": 0.01}}, "NoCapacity"),
    ],
)
def test_a_job_that_would_be_refused_is_no_failed_run(
    yard: YardTemplate, more: dict[str, Any], error: str
) -> None:
    result, answer = planned(yard, job("wanted", TWO, **more))
    assert not result.broken, result.broken
    assert result.outcome.endswith("SUCCEEDED")
    assert answer["error"] == error
    assert answer["reason"]


def test_a_full_yard_still_plans(yard: YardTemplate) -> None:
    result, answer = planned(
        yard.with_limits(most_runs=1), job("wanted", TWO), ("jobs/r.json", job("r", TWO))
    )
    assert not result.broken, result.broken
    assert answer["kind"] == "outlook"
