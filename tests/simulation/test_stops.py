"""A user stops a run in any state: it saves if it is training, ends soon, and names the user."""

import functools
from dataclasses import replace
from typing import Any

import pytest

from simulation.aws.dynamodb.tables import Key
from simulation.aws.dynamodb.values import Item
from simulation.faults import STOP_REQUESTS, Fault, HostFault, Kind, PersonFault
from simulation.scenario import CHECKPOINT_STEPS, Scenario, job
from simulation.scenarios import SCENARIOS
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

TWO = {"strategy": "multi_worker", "workers": 2}
TRAIN = SCENARIOS["train"]
STATES = ("Plan", "Launch", "AwaitHosts", "Train")


def stopped(yard: YardTemplate, state: str, *more: Fault, what: str = PersonFault.ASKS_TO_STOP) -> Result:
    return simulate(yard, TRAIN, faults=[Fault(Kind.STATE, f"train {state} #1", what), *more])


@pytest.mark.parametrize("what", STOP_REQUESTS)
@pytest.mark.parametrize("state", STATES)
def test_it_ends_as_stopped_in_every_state(yard: YardTemplate, state: str, what: str) -> None:
    result = stopped(yard, state, what=what)
    assert not result.broken, result.broken
    assert "Stopped" in result.outcome


@pytest.mark.parametrize("state", ["Release", "Conclude"])
def test_after_its_end_it_changes_nothing(yard: YardTemplate, state: str) -> None:
    result = stopped(yard, state)
    assert not result.broken, result.broken
    assert result.outcome.endswith("SUCCEEDED")


def test_between_attempts_it_is_not_tried_again(yard: YardTemplate) -> None:
    gone = Fault(Kind.HOST, "host-2 after started #1", HostFault.WARNED_120)
    result = stopped(yard, "Pause", gone)
    assert set(result.injected) == {gone, Fault(Kind.STATE, "train Pause #1", PersonFault.ASKS_TO_STOP)}
    assert not result.broken, result.broken
    assert "Stopped" in result.outcome


def test_it_stops_in_mid_training_with_a_checkpoint(yard: YardTemplate) -> None:
    ends: list[dict[str, Any]] = []

    def begin(world: Yard) -> None:
        TRAIN.begin(world)
        world.dynamodb.on_change.append(
            lambda _, key, before, after: stop_at_the_first(world, key, before, after)
        )

    def stop_at_the_first(world: Yard, key: Key, before: Item | None, after: Item | None) -> None:
        """Stop the run at its first checkpoint."""
        if after and "checkpointed" in after and "checkpointed" not in (before or {}):
            run = key[0].removeprefix("run#")
            world.after(1, lambda: world.people.request_stop(run), "a user stops it")

    def at_end(world: Yard) -> None:
        ends.append(world.summary(world.runs()[0].name) or {})

    result = simulate(yard, replace(TRAIN, begin=begin), at_end=at_end)
    assert not result.broken, result.broken
    (summary,) = ends
    (attempt,) = summary["attempts"]
    assert (summary["outcome"], attempt["ending"]) == ("stopped", "stopped")
    assert attempt["to_step"] >= CHECKPOINT_STEPS
    assert f"alice has stopped the run after step {attempt['to_step']}" in summary["reason"]
    assert "checkpoints.resume: two-" in summary["reason"]


@pytest.mark.parametrize("limits", [{"most_runs": 1}, {}])
def test_a_run_that_waits_ends_at_once(yard: YardTemplate, limits: dict[str, int]) -> None:
    """The run waits for a slot, or for capacity if EC2 has room for one gang."""

    def begin(world: Yard) -> None:
        if not limits:
            for code in world.ec2.pools.quotas:
                spot = world.ec2.catalogue.settings.quotas[code].market == "spot"
                world.ec2.pools.quotas[code] = 8.0 if spot else 0.0
        for number in range(2):
            upload = functools.partial(
                world.people.upload,
                f"jobs/r{number}.json",
                job(f"r{number}", TWO, hardware={"market": "spot"}),
            )
            world.after(1 + 20 * number, upload, "an upload")
        world.after(100, lambda: world.people.request_stop(world.runs()[-1].name), "a user stops it")

    def over(world: Yard) -> bool:
        return len(world.runs()) >= 2 and world.all_over()

    result = simulate(
        yard.with_limits(**limits), Scenario("stop", "one of two is stopped", begin, gang=2, over=over)
    )
    assert not result.broken, result.broken
    assert result.outcome.count("SUCCEEDED") == 1
    assert "Stopped" in result.outcome
