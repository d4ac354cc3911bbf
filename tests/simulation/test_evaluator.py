"""An evaluator beside synchronous workers takes part in every attempt, and does not count toward min and max."""

from typing import Any

import pytest

from simulation.scenario import HARDWARE, STEPS, Scenario, job
from simulation.template import YardTemplate
from simulation.yard import Yard
from tests.simulation.steps import check_the_steps, hosts, simulate_runs


def begin(yard: Yard) -> None:
    """Start a run. A capacity pool has room for two hosts for some minutes, then for all."""
    cluster = {"strategy": "multi_worker", "workers": {"min": 1, "max": 3}, "evaluator": True}
    program = {"module": "training.programs.digits", "args": {"steps": STEPS, "step-seconds": 60.0}}
    yard.ec2.pools.hold(2)
    yard.after(300, lambda: yard.ec2.pools.hold(None), "there is room for more")
    hardware = HARDWARE | {"cpu_roles": ["evaluator"]}
    yard.people.upload("jobs/elastic.json", job("elastic", cluster, program=program, hardware=hardware))


WHAT = "one to three workers, and an evaluator on a host without a GPU"
ELASTIC = Scenario("elastic", WHAT, begin, gang=4, least=2)


def evaluators(summary: dict[str, Any]) -> list[str]:
    """Return the types of the run's hosts without a GPU."""
    return [host["type"] for host in summary["hosts"] if host["type"].startswith("m")]


@pytest.mark.parametrize(
    ("fault", "sizes", "without_a_gpu"),
    [
        ("", [3, 4], 1),
        (": host host-2 after started #1: is interrupted with 120 s of notice", [3, 2, 4], 1),
        (": host host-3 after started #1: is interrupted with 120 s of notice", [3, 4], 2),
        (": host host-3 after started #1: dies", [3, 4], 2),
    ],
    ids=["nothing", "a worker is interrupted", "it is interrupted", "it dies"],
)
def test_workers_come_and_go_and_there_is_an_evaluator(
    fault: str, sizes: list[int], without_a_gpu: int, yard: YardTemplate
) -> None:
    _, summary = simulate_runs(yard, f"elastic{fault}", ELASTIC)
    assert summary["outcome"] == "succeeded"
    assert hosts(summary) == sizes
    assert len(evaluators(summary)) == without_a_gpu
    check_the_steps(summary)
