"""Gangs whose disks are initialized at a rate, in a region with a limit of such rates."""

import json
from collections import Counter
from typing import Any

import pytest

from simulation.scenario import Scenario, job
from simulation.simulate import simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

HARDWARE = {"instance_types": ["g5.48xlarge"], "market": "on_demand"}
LIMITS = {"hours": 2, "dollars": 20_000, "restarts": 3, "wait_minutes": 20}


def launched(template: YardTemplate, **gangs: int) -> dict[str, Any]:
    """Simulate simultaneous runs of these sizes. Return by run the rates of its disks, its bill and the true bill."""
    found: dict[str, Any] = {}

    def begin(yard: Yard) -> None:
        yard.ec2.pools.quotas = dict.fromkeys(yard.ec2.pools.quotas, 1e6)
        for name, workers in gangs.items():
            cluster = {"strategy": "multi_worker", "workers": workers}
            yard.people.upload(f"jobs/{name}.json", job(name, cluster, hardware=HARDWARE, limits=LIMITS))

    def look(yard: Yard) -> None:
        for run in yard.runs():
            name = run.name
            written = yard.s3.body(yard.template.bucket.name, f"runs/{name}/summary.json")
            assert written is not None, f"{name} has no summary"
            summary = json.loads(written)
            hosts = yard.ec2.find_tagged("trainyard:run", name)
            bill = yard.ec2.bill("trainyard:run", name)
            rates = Counter(host.initialization_rate for host in hosts)
            found[name.rsplit("-", 1)[0]] = (summary, dict(rates), bill)

    result = simulate(
        template.with_limits(most_dollars_per_run=0, monthly_dollars=0),
        Scenario("large", "large gangs", begin),
        at_end=look,
    )
    assert not result.broken
    return found


def test_fifty_hosts_launch_with_what_the_region_allows(yard: YardTemplate) -> None:
    ((summary, rates, bill),) = launched(yard, fifty=50).values()
    assert (summary["outcome"], rates) == ("succeeded", {100: 50})
    assert bill.initialization_dollars == pytest.approx(50 * 100 * 0.0024)
    charges = sum(host["volume_charge"] for host in summary["hosts"])
    assert charges == pytest.approx(bill.initialization_dollars)
    assert sum(host["dollars"] for host in summary["hosts"]) == pytest.approx(
        summary["cost"]["dollars"], abs=1e-3
    )


def test_the_initialization_rate_of_another_gang_prevents_no_launch(yard: YardTemplate) -> None:
    found = launched(yard, first=16, second=16)
    assert {summary["outcome"] for summary, *_ in found.values()} == {"succeeded"}
    rates = [rates for _, rates, _ in found.values()]
    assert sorted(rates, key=str) == [{0: 16}, {300: 16}]
    assert {bill.initialization_dollars > 0 for *_, bill in found.values()} == {True, False}
