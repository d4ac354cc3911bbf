"""Runs with `prefer: speed`: one request names every capacity pool of a market, and a gang is never split between
two pools."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from simulation.faults import Fault
from simulation.scenario import HARDWARE, STEPS, Scenario, job
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

TWO = {"strategy": "multi_worker", "workers": 2}
SERVERS = {"strategy": "parameter_server", "workers": 2, "parameter_servers": 1}
ELASTIC = {"strategy": "multi_worker", "workers": {"min": 2, "max": 4}}
ROOMY = "us-east-1c"
"""A zone of the most expensive allowed type, which is not tried first."""


def room_in_one_pool(yard: Yard) -> None:
    """Leave enough capacity in one spot pool only."""
    yard.ec2.pools.hold(9, market="spot")
    yard.ec2.pools.hold(20, "g5.xlarge", ROOMY, "spot")


def no_room_on_spot(yard: Yard) -> None:
    yard.ec2.pools.hold(0, market="spot")


def simulate_runs(
    template: YardTemplate,
    *faults: str,
    cluster: Mapping[str, Any] = TWO,
    environment: Callable[[Yard], None] = room_in_one_pool,
    gang: int = 2,
    least: int = 0,
    program: Mapping[str, Any] | None = None,
    **hardware: Any,
) -> tuple[Result, dict[str, Any]]:
    """Simulate a run by speed with these faults and assert that all were injected. Return the result and the
    summary with the candidates in plan.json."""
    ends: list[dict[str, Any]] = []

    def begin(yard: Yard) -> None:
        environment(yard)
        by_speed = HARDWARE | {"prefer": "speed"} | hardware
        sections = {"program": program} if program else {}
        yard.people.upload("jobs/speed.json", job("speed", cluster, hardware=by_speed, **sections))

    def at_end(yard: Yard) -> None:
        (run,) = yard.runs()
        plan = yard.read_json(f"runs/{run.name}/plan.json")
        ends.append({**(yard.summary(run.name) or {}), "launch_requests": plan["launch_requests"]})

    planned = [Fault.parse(fault) for fault in faults]
    scenario = Scenario("speed", "a run by speed", begin, gang=gang, least=least)
    result = simulate(template, scenario, faults=planned, at_end=at_end)
    assert not result.broken, result.broken
    assert set(result.injected) == set(planned)
    return result, ends[0]


def pools(summary: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    return {(host["type"], host["zone"], host["market"]) for host in summary["hosts"]}


def last_gang(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the hosts of the last attempt."""
    members = summary["attempts"][-1]["hosts"]
    return [host for host in summary["hosts"] if host["instance"] in members]


def test_one_request_finds_the_pool_with_the_most_room(yard: YardTemplate) -> None:
    result, summary = simulate_runs(yard)
    assert result.calls["ec2.create_fleet"] == 1
    assert pools(summary) == {("g5.xlarge", ROOMY, "spot")}
    assert [(row["pool"], row["answer"]) for row in summary["launch_requests"]] == [
        (f"g5.xlarge in {ROOMY}, spot", "launched")
    ]


def test_two_requests_find_a_pool_on_demand(yard: YardTemplate) -> None:
    result, summary = simulate_runs(yard, environment=no_room_on_spot)
    assert result.calls["ec2.create_fleet"] == 2
    assert {market for *_, market in pools(summary)} == {"on_demand"}
    spot = [row for row in summary["launch_requests"] if row["answer"] == "refused"]
    assert len({row["pool"] for row in spot}) == len(spot) > 3
    assert {row["code"] for row in spot} == {"InsufficientInstanceCapacity"}


BEFALLS = [
    "request train-launch#1/4 ec2.create_fleet: function killed after the request",
    "request train-launch#1/4 ec2.create_fleet: function killed before the request",
    "request train-launch#1/4 ec2.create_fleet: connection lost after the effect",
    "invocation train-launch#1: run twice at the same time",
    "invocation train-launch#1: out of memory",
    "pool fleet request #1: refuses once",
    "pool fleet request #1: refuses for ten minutes",
    "pool fleet request #1: grants too few",
    "pool fleet request #1: is beyond the quota",
]


UNWRITTEN = "request train-launch#1/{} dynamodb.transact_write_items: function killed before the request"
"""The launched hosts never reach the ledger."""


@pytest.mark.parametrize("fault", [*BEFALLS, UNWRITTEN.format(5)])
def test_after_any_fault_of_the_request_the_gang_is_whole_and_in_one_pool(
    yard: YardTemplate, fault: str
) -> None:
    result, summary = simulate_runs(yard, fault)
    assert result.outcome.endswith("SUCCEEDED")
    assert len({(host["type"], host["zone"]) for host in last_gang(summary)}) == 1


@pytest.mark.parametrize(
    "fault",
    [
        *BEFALLS,
        UNWRITTEN.format(6),
        "request train-launch#1/5 ec2.create_fleet: function killed after the request",
        "pool fleet request #2: refuses once",
        "pool fleet request #2: grants too few",
    ],
)
def test_cpu_hosts_are_beside_the_gang_in_the_zone_that_was_taken(yard: YardTemplate, fault: str) -> None:
    result, summary = simulate_runs(yard, fault, cluster=SERVERS, gang=4)
    assert result.outcome.endswith("SUCCEEDED")
    assert len({host["zone"] for host in last_gang(summary)}) == 1


def test_without_capacity_for_cpu_hosts_the_same_batch_requests_another_pool(yard: YardTemplate) -> None:
    def no_cpu_there(world: Yard) -> None:
        room_in_one_pool(world)
        for family in ("m7i", "m6i", "m7a"):
            world.ec2.pools.hold(0, f"{family}.xlarge", ROOMY, "spot")

    result, summary = simulate_runs(yard, cluster=SERVERS, gang=4, environment=no_cpu_there)
    assert result.outcome.endswith("SUCCEEDED")
    assert [row["answer"] for row in summary["launch_requests"]] == ["refused", "launched"]
    assert summary["launch_requests"][0]["pool"] == f"g5.xlarge in {ROOMY}, spot"
    assert ROOMY not in summary["launch_requests"][1]["pool"]


def test_survivors_of_an_interruption_stay_and_what_is_missing_joins_them(yard: YardTemplate) -> None:
    result, summary = simulate_runs(yard, "host host-2 after started #1: is interrupted with 120 s of notice")
    assert result.outcome.endswith("SUCCEEDED")
    assert [attempt["pool"] for attempt in summary["attempts"]] == [f"g5.xlarge in {ROOMY}, spot"] * 2
    assert len(summary["hosts"]) == 3


def test_an_elastic_gang_takes_what_one_pool_has_and_grows_there(yard: YardTemplate) -> None:
    def room_for_three(world: Yard) -> None:
        world.ec2.pools.hold(1)
        world.ec2.pools.hold(3, "g5.xlarge", ROOMY, "spot")
        world.after(300, lambda: world.ec2.pools.hold(9, "g5.xlarge", ROOMY, "spot"), "there is more room")

    program = {"module": "training.programs.digits", "args": {"steps": STEPS, "step-seconds": 60.0}}
    result, summary = simulate_runs(
        yard, cluster=ELASTIC, environment=room_for_three, gang=4, least=2, program=program
    )
    assert [size["hosts"] for size in summary["sizes"]] == [3, 4]
    assert pools(summary) == {("g5.xlarge", ROOMY, "spot")}
    assert result.calls["ec2.create_fleet"] == 2


def test_no_pool_above_the_cap_is_taken_however_much_room_it_has(yard: YardTemplate) -> None:
    _, summary = simulate_runs(yard, max_dollars_per_hour=0.75)
    assert summary["hosts"]
    assert all(host["price"] * 2 <= 0.75 for host in summary["hosts"])
