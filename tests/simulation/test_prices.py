"""A yard in a more expensive region: its plans, limits and bills use the prices of that region."""

import json
from typing import Any

import pytest

from simulation.aws.endpoint.api import Caller, ServiceError
from simulation.invariants.model import Invariant
from simulation.scenario import Scenario, job
from simulation.simulate import simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

EU, DEARER = "eu-central-1", 1.19
HARDWARE = {"instance_types": ["g5.xlarge"], "market": "on_demand"}
LONG = {"module": "training.programs.digits", "args": {"steps": 7200, "step-seconds": 2}}
PATROLLED = 90
"""Seconds until patrol has read the price list in its first pass."""


def trained(
    template: YardTemplate, *, region: str, wait: float, throttle: Any = None, **more: Any
) -> tuple[dict[str, Any], Any, list[str]]:
    """Simulate a run of one host. Return its summary, the true bill, and the reasons of its plan."""
    found: list[tuple[dict[str, Any], Any, list[str]]] = []

    def begin(yard: Yard) -> None:
        yard.use_prices_of(region)
        yard.gateway.throttle = throttle or yard.gateway.throttle
        document = job("one", {"workers": 1}, hardware=HARDWARE, **more)
        yard.after(wait, lambda: yard.people.upload("jobs/one.json", document), "a user starts a job")

    def look(yard: Yard) -> None:
        (run,) = yard.runs()
        read = {name: body(yard, f"runs/{run.name}/{name}.json") for name in ("summary", "plan")}
        found.append((read["summary"], yard.ec2.bill("trainyard:run", run.name), read["plan"]["reason"]))

    result = simulate(template, Scenario("dear", "in a dear region", begin), at_end=look)
    capped = found[0][0]["error"] == "LimitReached"
    assert {each.invariant for each in result.broken} == ({Invariant.SURVIVES} if capped else set())
    return found[0]


def body(yard: Yard, key: str) -> dict[str, Any]:
    written = yard.s3.body(yard.template.bucket.name, key)
    assert written is not None, f"there is no {key}"
    return dict(json.loads(written))


def test_it_plans_and_bills_by_the_prices_of_its_region(yard: YardTemplate) -> None:
    summary, bill, reason = trained(yard, region=EU, wait=PATROLLED)
    assert summary["outcome"] == "succeeded"
    assert summary["cost"]["prices"].startswith(f"prices of {EU}, ")
    assert summary["cost"]["prices"] in reason
    (host,) = summary["hosts"]
    assert host["price"] == pytest.approx(DEARER * 1.006)
    assert host["gib_month"] == pytest.approx(DEARER * 0.08)
    world = bill.dollars + bill.disk_dollars + bill.initialization_dollars
    assert summary["cost"]["dollars"] == pytest.approx(world, rel=0.05)


def test_its_dollars_end_a_run_sooner_than_in_a_cheap_region(yard: YardTemplate) -> None:
    limits = {"hours": 4, "dollars": 1.0, "restarts": 0, "wait_minutes": 20}
    hours = {}
    for region in ("us-east-1", EU):
        summary, *_ = trained(yard, region=region, wait=PATROLLED, program=LONG, limits=limits)
        assert summary["error"] == "LimitReached"
        assert "stopped at its cap of $1.00 (limits.dollars)" in summary["reason"]
        assert summary["cost"]["dollars"] == pytest.approx(1.0, rel=0.1)
        hours[region] = summary["cost"]["hours"]
    assert hours["us-east-1"] / hours[EU] == pytest.approx(DEARER, rel=0.03)


def test_a_run_that_begins_before_patrol_has_been_there_says_whose_prices_count(yard: YardTemplate) -> None:
    summary, *_ = trained(yard, region=EU, wait=0)
    assert summary["outcome"] == "succeeded"
    assert summary["cost"]["prices"] == (
        f"prices of us-east-1, 2026-07-20: patrol has not read the price list of {EU} yet"
    )
    assert summary["hosts"][0]["price"] == 1.006


def test_a_price_list_that_never_answers_ends_no_run_and_is_spoken_of(yard: YardTemplate) -> None:
    def refuses(_caller: Caller, operation: str, _request: Any) -> ServiceError | None:
        return (
            ServiceError("ThrottlingException", "Rate exceeded") if operation.startswith("pricing.") else None
        )

    summary, _, reason = trained(yard, region=EU, wait=PATROLLED, throttle=refuses)
    assert summary["outcome"] == "succeeded"
    assert summary["hosts"][0]["price"] == 1.006
    said = "prices of us-east-1, 2026-07-20: the price list was not read: pricing does not do GetProducts now"
    assert summary["cost"]["prices"].startswith(said)
    assert said in reason
