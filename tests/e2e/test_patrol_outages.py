"""The yard falls silent, or dies in mid-sentence: nothing is stopped for it, and nothing goes on for it.

All of it is begun on one yard before anything is looked at, since most of it is waiting.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.runs import Runs
from tests.e2e.watch import (
    MINUTES,
    ON_DEMAND,
    ONE,
    SOON,
    UNCLEARED,
    begun,
    ec2,
    hosts_of,
    patrols_until_its_end,
    state,
    until_gone,
    until_it_is,
    until_judged,
    without_rules,
)
from trainyard.client import Run


@dataclass(frozen=True)
class Silence:
    """`kept`: hosts without a run of which CloudWatch knows nothing. `unheard`: a run that nobody hears.
    `dead`: runs whose execution was stopped in mid-launch, by that moment."""

    kept: list[str]
    unheard: Run
    dead: dict[str, Run]


@pytest.fixture(scope="module")
def silence(runs: Runs) -> Iterator[Silence]:
    """The rules that end the hosts of an execution which was cut short are off: what ends them here is patrol."""
    kept = two_stopped_hosts(runs)
    unheard = begun(runs, runs.job("lost-finish", cluster=ONE, program={"args": {"steps": 1200}}))
    with without_rules(runs, *UNCLEARED), without_rules(runs, "HostSignal", bus="trainyard"):
        runs.cloud.fault("metrics")
        ec2(runs).start_instances(InstanceIds=kept)
        host = {"image": runs.yard.image(), "instance_types": ["g6.xlarge"]}
        dead = {
            "of a host": stopped_when(runs, runs.yard.start("launch", host), "attempt#"),
            "of a builder": stopped_when(runs, runs.yard.start("bake", {"force": True}), "attempt#"),
            "after its rows": stopped_when(runs, runs.start(runs.job("dies-after-rows")), "attempt#"),
            "after its intent": stopped_in_launch(runs, "dies-after-intent"),
        }
        late = dead["after its intent"]
        runs.until("it is launched all the same", lambda: has(late, "attempt#"))

        def tear() -> None:
            dead["after CreateFleet"] = stopped_in_launch(runs, "dies-after-fleet")

        with runs.without("TrainLaunchRole", "dynamodb:PutItem", once=tear):
            runs.until("EC2 launches it", lambda: hosts_of(dead["after CreateFleet"]))
            yield Silence(kept, unheard, dead)
    runs.cloud.fault("clear")
    ec2(runs).terminate_instances(InstanceIds=kept)
    assert runs.living() == []


@pytest.fixture(autouse=True)
def nothing_lives_on() -> None:
    """Other tests look at what goes on when one has ended: the last of them sees to it."""


def two_stopped_hosts(runs: Runs) -> list[str]:
    """As a job leaves them that keeps its hosts. Their window ends too late for what they sent before they stopped."""
    policy = {**SOON, "window_minutes": 3, "unknown_stop_minutes": 1}
    run = runs.run(runs.job("outage", hardware=ON_DEMAND, after={"hosts": "stop"}, policy=policy))
    assert run.succeeded, run.why()
    both = hosts_of(run)
    for each in both:
        until_it_is(runs, each, "stopped")
    return both


def stopped_in_launch(runs: Runs, name: str) -> Run:
    """Stopped between the intent and CreateFleet, which EC2 turns away until its function's last try."""
    runs.cloud.fault("throttle", "CreateFleet", "--times", "4")
    return stopped_when(runs, runs.start(runs.job(name)), "intent#")


def stopped_when(runs: Runs, run: Run, row: str) -> Run:
    """The run whose execution was stopped once it has such a row, whatever its functions do meanwhile."""
    runs.until(f"{run.id} has its {row}", lambda: has(run, row))
    run.stop()
    return run


def has(run: Run, key: str) -> bool:
    return any(row["sk"].startswith(key) for row in run.rows)


@pytest.mark.parametrize(
    ("moment", "hosts"),
    [
        ("after its intent", 2),
        ("after CreateFleet", 2),
        ("after its rows", 2),
        ("of a host", 1),
        ("of a builder", 1),
    ],
)
def test_a_launch_whose_control_plane_dies_leaves_no_host_after_the_third_patrol(
    runs: Runs, silence: Silence, moment: str, hosts: int
) -> None:
    run = silence.dead[moment]
    gang = hosts_of(run)
    assert len(gang) == hosts
    until_gone(runs, gang, 4.5 * MINUTES)
    assert max(patrols_until_its_end(runs, each) for each in gang) <= 3
    summary = runs.until(f"a summary of {run.id}", lambda: run.summary)
    assert summary["error"] == "Aborted"
    assert has(run, "host#") == (moment != "after CreateFleet")
    assert hosts_of(run) == gang, "nothing was launched later"


def test_a_finish_that_nobody_heard_is_found_by_patrol(runs: Runs, silence: Silence) -> None:
    done = runs.finish(silence.unheard, 8 * MINUTES)
    assert done.succeeded, done.why()
    assert len(done.summary["attempts"]) == 1


def test_a_metrics_outage_stops_nothing(runs: Runs, silence: Silence) -> None:
    """Not even hosts whose policy stops what is unknown for a minute."""
    until_judged(runs, silence.kept, "stop-unknown", 8 * MINUTES)
    assert [state(runs, each) for each in silence.kept] == ["running", "running"]
