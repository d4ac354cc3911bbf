"""What a world is made to do: the runs that faults are tried on, each with what must come of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from simulation.yard.deployment import add_baked_image
from trainyard.protocol.tags import Tag

if TYPE_CHECKING:
    from simulation.yard import Yard

STEPS, STEP_SECONDS, CHECKPOINT_STEPS = 40, 2.0, 10
POOL_MINUTES = 6
PATIENCE = timedelta(minutes=5)
"""After its end, for hosts of a run to be warm, before somebody asks for them all the same."""
SHORT = {"module": "training.programs.digits", "args": {"steps": 4, "step-seconds": STEP_SECONDS}}
"""What it does on warm hosts is as on any: how it comes there, and leaves them, is what is tried."""


@dataclass(frozen=True)
class Scenario:
    """`begin` sets it going. Whatever happens, every run is over within `longest` of the begin."""

    name: str
    what: str
    begin: Callable[[Yard], None]
    longest: timedelta = timedelta(hours=3)
    gang: int = 0
    """Hosts that each attempt must have, or may have at most; 0: it trains nothing."""
    least: int = 0
    """Hosts that each attempt must have at least; 0: as many as `gang` says."""
    stays: int = 0
    """Hosts that live on when it has succeeded."""
    over: Callable[[Yard], bool] = lambda yard: bool(yard.runs()) and yard.all_over()
    since: str = ""
    """The first place of its own: single faults before it are tried in the scenario that it begins like."""
    until: str = ""
    """The first place that is its own no more: single faults from it on are tried in the scenario that it ends like."""
    pool_minutes: float | None = None
    """For which its jobs keep hosts."""
    refused: frozenset[str] = frozenset()
    """Runs that must be refused."""
    resumed: Mapping[str, str] = field(default_factory=dict)
    """By the name of a run, the job of the run whose last checkpoint it must begin with."""


HARDWARE: dict[str, Any] = {
    "instance_types": ["g6.xlarge", "g5.xlarge", "g4dn.xlarge"],
    "market": "spot_then_on_demand",
    "max_dollars_per_hour": 8.0,
}


def job(name: str, cluster: Mapping[str, Any], **more: Any) -> bytes:
    """A job file of a program that takes 40 steps of two seconds and saves every tenth."""
    args = {"steps": STEPS, "step-seconds": STEP_SECONDS}
    document = {
        "name": name,
        "program": {"module": "training.programs.digits", "args": args},
        "cluster": cluster,
        "hardware": HARDWARE,
        "checkpoints": {"steps": CHECKPOINT_STEPS},
        "limits": {"hours": 2, "dollars": 20, "restarts": 3, "wait_minutes": 20},
        "after": {"hosts": "terminate", "image": "never"},
    }
    return json.dumps(document | more).encode()


def _train(yard: Yard) -> None:
    yard.people.upload("jobs/two.json", job("two", {"strategy": "multi_worker", "workers": 2}))


def _parameter_servers(yard: Yard) -> None:
    cluster = {"strategy": "parameter_server", "workers": 2, "parameter_servers": 1}
    hardware = HARDWARE | {"disk_gib": 150, "zones": ["us-east-1a", "us-east-1b"], "prefer": "speed"}
    yard.people.upload("jobs/servers.json", job("servers", cluster, hardware=hardware))


def _evaluator(yard: Yard) -> None:
    cluster = {"strategy": "multi_worker", "workers": 2, "evaluator": True}
    hardware = HARDWARE | {"cpu_roles": ["evaluator"]}
    yard.people.upload("jobs/evaluated.json", job("evaluated", cluster, hardware=hardware))


def _elastic(yard: Yard) -> None:
    """There is room for three for some minutes, and then for all."""
    cluster = {"strategy": "multi_worker", "workers": {"min": 2, "max": 4}}
    program = {"module": "training.programs.digits", "args": {"steps": STEPS, "step-seconds": 60.0}}
    yard.ec2.pools.hold(3)
    yard.after(300, lambda: yard.ec2.pools.hold(None), "there is room for more")
    yard.people.upload("jobs/elastic.json", job("elastic", cluster, program=program))


def _pool(yard: Yard) -> None:
    """One after the other, on the same hosts if these are warm."""
    cluster = {"strategy": "multi_worker", "workers": 2}
    yard.people.upload("jobs/first.json", job("first", cluster, pool={"keep": 2, "minutes": POOL_MINUTES}))

    def once_it_is_over() -> None:
        if yard.runs() and yard.all_over():
            yard.people.upload("jobs/second.json", job("second", cluster, program=SHORT))
        else:
            yard.after(20, once_it_is_over, "somebody looks whether it is over")

    yard.after(20, once_it_is_over, "somebody looks whether it is over")


def _over(runs: int) -> Callable[[Yard], bool]:
    """Return what is true once so many runs have ended."""
    return lambda yard: len(yard.runs()) >= runs and yard.all_over()


def _are_resumed(yard: Yard) -> bool:
    return yard.all_over() and any(each.name == "late-b" for each in yard.runs())


def _rivals(yard: Yard) -> None:
    """Two runs at once, each of which would have the two hosts that a run before has kept."""
    cluster = {"strategy": "multi_worker", "workers": 2}
    first = job("first", cluster, program=SHORT, pool={"keep": 2, "minutes": POOL_MINUTES})
    yard.people.upload("jobs/first.json", first)

    def once_both_are_wiped() -> None:
        wiped = [row for row in yard.rows("pool") if "ready" in row]
        if len(wiped) == len(yard.rows("pool")) == 2 or (yard.runs() and yard.since_over() > PATIENCE):
            for name in ("second", "third"):
                yard.people.upload(f"jobs/{name}.json", job(name, cluster))
        else:
            yard.after(5, once_both_are_wiped, "somebody looks whether hosts are warm")

    yard.after(20, once_both_are_wiped, "somebody looks whether hosts are warm")


def _resumes(yard: Yard) -> None:
    """Two start-execution by hand resume a run that trains, and two more half a second after it is stopped."""
    cluster = {"strategy": "multi_worker", "workers": 2}
    yard.people.upload("jobs/first.json", job("first", cluster))

    def resume(run: str, *names: str) -> None:
        again = json.loads(job("again", cluster, program=SHORT))
        again["checkpoints"]["resume"] = run
        for name in names:
            yard.people.start("train", name, {"job": again})

    def stop(first: str) -> None:
        yard.people.ask_to_stop(first)
        yard.after(0.5, lambda: resume(first, "late-a", "late-b"), "somebody resumes it twice")

    def once_it_has_saved() -> None:
        first = next((each.name for each in yard.runs()), None)
        if first and (yard.confirmed(first) or yard.all_over()):
            resume(first, "early-a", "early-b")
            yard.after(25, lambda: stop(first), "somebody stops it")
        else:
            yard.after(1, once_it_has_saved, "somebody looks whether it has saved")

    yard.after(20, once_it_has_saved, "somebody looks whether it has saved")


def _bakes(yard: Yard) -> None:
    """Two of one family at once: one is refused, and moves nothing."""
    yard.people.upload("images/gpu.yaml", yard.recipe)
    yard.people.upload("images/gpu.yaml", yard.recipe + b"\n# again\n")


def _bake(yard: Yard) -> None:
    yard.people.upload("images/gpu.yaml", yard.recipe)


def _launch(yard: Yard) -> None:
    yard.people.start("launch", "sit", {"latest": "gpu", "instance_types": ["g6.xlarge"], "hours": 2})


def _snapshot(yard: Yard) -> None:
    """Of a host that was launched, once it works."""
    _launch(yard)

    def ask() -> None:
        launched = yard.ec2.tagged(Tag.RUN, "sit")
        host = launched[0].id if launched else "i-00000000000000099"
        yard.people.start("snapshot", "keep", {"instance": host})

    yard.after(240, ask, "somebody asks for a snapshot")


def _retire(yard: Yard) -> None:
    for number in range(6):
        add_baked_image(yard, f"ami-00000000000000f{number:02}", "gpu", days=20 + number)
    yard.people.start("retire", "old", {})


def _patrol(yard: Yard) -> None:
    yard.people.launch_by_hand()


def _nothing_runs(yard: Yard) -> bool:
    return all(not each.live for each in yard.ec2.ever.values())


SCENARIOS: Mapping[str, Scenario] = {
    each.name: each
    for each in (
        Scenario("train", "two workers", _train, gang=2),
        Scenario("servers", "chief, two workers, a parameter server, by speed", _parameter_servers, gang=4),
        Scenario("evaluator", "two workers, an evaluator on a host without a GPU", _evaluator, gang=3),
        Scenario(
            "elastic",
            "two to four workers, three of them at first",
            _elastic,
            gang=4,
            least=2,
            since="train-launch#2",
        ),
        Scenario(
            "pool",
            "two runs, the second on the hosts of the first",
            _pool,
            gang=2,
            pool_minutes=POOL_MINUTES,
            over=_over(2),
            since="release#1",
            until="train Train #2",
        ),
        Scenario(
            "rivals",
            "two runs at once, both for the hosts of a third",
            _rivals,
            gang=2,
            pool_minutes=POOL_MINUTES,
            over=_over(3),
            since="train-admit#2",
            until="train Train #3",
        ),
        Scenario(
            "resumes",
            "a run that two others resume, as it trains and as it stops",
            _resumes,
            gang=2,
            over=_are_resumed,
            since="train-admit#2",
            until="train Launch #2",
            refused=frozenset({"early-a", "early-b"}),
            resumed={"late-a": "first", "late-b": "first"},
        ),
        Scenario("bake", "an image from its recipe", _bake, timedelta(hours=6)),
        Scenario(
            "bakes",
            "two bakes of one family at once",
            _bakes,
            timedelta(hours=6),
            over=_over(2),
            since="bake-admit#1",
            until="bake Install #1",
        ),
        Scenario(
            "snapshot",
            "an image of a host that works",
            _snapshot,
            stays=1,
            over=_over(2),
            since="snapshot-admit#1",
        ),
        Scenario("launch", "a host from the yard's image", _launch, stays=1),
        Scenario("retire", "old images go", _retire),
        Scenario("patrol", "a host that nobody uses", _patrol, over=_nothing_runs),
    )
}
