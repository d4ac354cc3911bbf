"""Runs with min and max workers: they start with the available hosts, continue with the remaining ones, grow when
there is capacity, and keep no host that joins nothing."""

from datetime import timedelta

import pytest

from simulation.invariants.model import Invariant
from simulation.scenario import Scenario, job
from simulation.simulate import simulate
from simulation.template import YardTemplate
from simulation.yard import Yard
from tests.simulation.steps import ELASTIC, check_the_steps, hosts, simulate_runs


def test_it_starts_with_what_there_is_and_grows_when_there_is_more(yard: YardTemplate) -> None:
    result, summary = simulate_runs(yard, "elastic")
    assert hosts(summary) == [3, 4]
    assert [row["ending"] for row in summary["attempts"]] == ["resized", "finished"]
    assert summary["resume"]["steps_lost"] == 0
    assert result.calls["ec2.create_fleet"] == 2
    check_the_steps(summary)


def test_an_interrupted_run_continues_at_once_with_the_remaining_hosts(yard: YardTemplate) -> None:
    _, summary = simulate_runs(
        yard, "elastic: host host-2 after started #1: is interrupted with 120 s of notice"
    )
    assert hosts(summary) == [3, 2, 4]
    assert "hosts were interrupted or lost" in summary["sizes"][1]["reason"]
    check_the_steps(summary)


def test_one_below_the_least_comes_back_and_goes_up_to_the_most(yard: YardTemplate) -> None:
    gone = [f"host host-{n} after started #1: is interrupted with 120 s of notice" for n in (2, 3)]
    _, summary = simulate_runs(yard, f"elastic: {' + '.join(gone)}")
    assert summary["outcome"] == "succeeded"
    assert min(hosts(summary)) >= 2
    assert hosts(summary)[-1] == 4
    check_the_steps(summary)


@pytest.mark.parametrize(
    ("fault", "sizes"),
    [
        ("invocation train-launch#2: out of memory", [3, 4]),
        ("invocation train-launch#2: run twice at the same time", [3, 4]),
        ("request train-launch#2/3 ec2.create_fleet: function killed after the request", [3, 4]),
        ("pool fleet request #2: refuses once", [3, 4]),
        ("host host-4 boots: never boots", [3]),  # by then the run does not need another host anymore
        ("host host-4 before ready #1: dies", [3, 4]),
        ("host host-4 after ready #1: is interrupted with 120 s of notice", [3, 4]),
    ],
)
def test_faults_of_joining_hosts_change_only_the_time(
    yard: YardTemplate, fault: str, sizes: list[int]
) -> None:
    _, summary = simulate_runs(yard, f"elastic: {fault}")
    assert hosts(summary) == sizes
    check_the_steps(summary)


def test_hosts_that_come_when_the_run_is_over_never_stay(yard: YardTemplate) -> None:
    """A user stops the run while it requests more hosts."""

    def begin(world: Yard) -> None:
        ELASTIC.begin(world)
        world.after(630.2, lambda: world.people.stop(world.runs()[0]), "a user stops the execution")

    result = simulate(yard, Scenario("stopped", "one that is stopped as it grows", begin, gang=4, least=2))
    assert {each.invariant for each in result.broken} == {Invariant.SURVIVES}, result.broken
    assert result.outcome.endswith("ABORTED")


def test_room_for_fewer_than_the_least_launches_nothing(yard: YardTemplate) -> None:
    def begin(world: Yard) -> None:
        world.ec2.pools.hold(1)
        cluster = {"strategy": "multi_worker", "workers": {"min": 2, "max": 4}}
        world.people.upload("jobs/few.json", job("few", cluster))

    scenario = Scenario("few", "one host where there must be two", begin, timedelta(hours=3), gang=4, least=2)
    launched: list[str] = []
    result = simulate(yard, scenario, at_end=lambda world: launched.extend(world.ec2.ever))
    assert {each.invariant for each in result.broken} == {Invariant.SURVIVES}, result.broken
    assert "NoCapacity" in result.outcome
    assert launched == []
