"""The scenarios: runs on which faults are tried, each with its expected result."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from simulation.model_scenarios import MODEL_SCENARIOS
from simulation.orderings import ORDERED_SCENARIOS
from simulation.scenario import HARDWARE, SHORT, STEPS, Scenario, job
from simulation.studies import LONG_STUDY, SHORT_STUDY, TWENTY_TRIALS, Search
from simulation.yard.deployment import add_baked_image
from trainyard.protocol.tags import Tag

if TYPE_CHECKING:
    from simulation.yard import Yard

POOL_MINUTES = 6
PATIENCE = timedelta(minutes=5)
"""The longest wait, after the first run has ended, for its hosts to become warm before the next jobs are uploaded."""


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
    """Start an elastic run, with capacity for three hosts during the first 300 s, then for all."""
    cluster = {"strategy": "multi_worker", "workers": {"min": 2, "max": 4}}
    program = {"module": "training.programs.digits", "args": {"steps": STEPS, "step-seconds": 60.0}}
    yard.ec2.pools.hold(3)
    yard.after(300, lambda: yard.ec2.pools.hold(None), "there is capacity for more hosts")
    yard.people.upload("jobs/elastic.json", job("elastic", cluster, program=program))


def _pool(yard: Yard) -> None:
    """Start two runs one after the other. The second takes the hosts of the first if they are warm."""
    cluster = {"strategy": "multi_worker", "workers": 2}
    yard.people.upload("jobs/first.json", job("first", cluster, pool={"keep": 2, "minutes": POOL_MINUTES}))

    def once_it_is_over() -> None:
        if yard.runs() and yard.all_over():
            yard.people.upload("jobs/second.json", job("second", cluster, program=SHORT))
        else:
            yard.after(20, once_it_is_over, "a user checks whether the run has ended")

    yard.after(20, once_it_is_over, "a user checks whether the run has ended")


def _over(runs: int) -> Callable[[Yard], bool]:
    """Return a function that returns True once this many runs have ended."""
    return lambda yard: len(yard.runs()) >= runs and yard.all_over()


def _are_resumed(yard: Yard) -> bool:
    return yard.all_over() and any(each.name == "late-b" for each in yard.runs())


def _rivals(yard: Yard) -> None:
    """Start two simultaneous runs that both need the two warm hosts of an earlier run."""
    cluster = {"strategy": "multi_worker", "workers": 2}
    first = job("first", cluster, program=SHORT, pool={"keep": 2, "minutes": POOL_MINUTES})
    yard.people.upload("jobs/first.json", first)

    def once_both_are_wiped() -> None:
        wiped = [row for row in yard.rows("pool") if "ready" in row]
        if len(wiped) == len(yard.rows("pool")) == 2 or (yard.runs() and yard.time_since_end() > PATIENCE):
            for name in ("second", "third"):
                yard.people.upload(f"jobs/{name}.json", job(name, cluster))
        else:
            yard.after(5, once_both_are_wiped, "a user checks whether hosts are warm")

    yard.after(20, once_both_are_wiped, "a user checks whether hosts are warm")


def _preempts(yard: Yard) -> None:
    """Start a run in a yard for one run, and one of a higher priority once the first has saved."""
    cluster = {"strategy": "multi_worker", "workers": 2}
    program = {"module": "training.programs.digits", "args": {"steps": STEPS, "step-seconds": 8.0}}
    yard.people.upload("jobs/low.json", job("low", cluster, program=program, priority=10))

    def once_it_has_saved() -> None:
        first = next((each.name for each in yard.runs()), None)
        if first and (yard.confirmed_steps(first) or yard.all_over()):
            yard.people.upload("jobs/urgent.json", job("urgent", cluster, program=SHORT, priority=80))
        else:
            yard.after(5, once_it_has_saved, "a user checks whether it has saved")

    yard.after(20, once_it_has_saved, "a user checks whether it has saved")


def _resumes(yard: Yard) -> None:
    """Resume a run twice while it trains, and twice again half a second after it was stopped."""
    cluster = {"strategy": "multi_worker", "workers": 2}
    yard.people.upload("jobs/first.json", job("first", cluster))

    def resume(run: str, *names: str) -> None:
        again = json.loads(job("again", cluster, program=SHORT))
        again["checkpoints"]["resume"] = run
        for name in names:
            yard.people.start("train", name, {"job": again})

    def stop(first: str) -> None:
        yard.people.request_stop(first)
        yard.after(0.5, lambda: resume(first, "late-a", "late-b"), "a user resumes it twice")

    def once_it_has_saved() -> None:
        first = next((each.name for each in yard.runs()), None)
        if first and (yard.confirmed_steps(first) or yard.all_over()):
            resume(first, "early-a", "early-b")
            yard.after(25, lambda: stop(first), "a user stops it")
        else:
            yard.after(1, once_it_has_saved, "a user checks whether it has saved")

    yard.after(20, once_it_has_saved, "a user checks whether it has saved")


def _study(search: Search) -> Callable[[Yard], None]:
    """Return a function that starts a study."""
    return lambda yard: search.begin(yard, json.loads(job("study", {"strategy": "single"})))


def long_study(search: Search, longest: timedelta) -> Scenario:
    """Return a scenario of a study with many faults at once."""
    what = f"{search.trials:,} trials of a study, {search.parallel} at once, with many faults"
    return Scenario("long-study", what, _study(search), longest, gang=1, pool_minutes=3, cpu_seconds=7200.0)


def _bakes(yard: Yard) -> None:
    """Start two simultaneous bakes of one family. One is refused and must not change the image."""
    yard.people.upload("images/gpu.yaml", yard.recipe)
    yard.people.upload("images/gpu.yaml", yard.recipe + b"\n# again\n")


def _bake(yard: Yard) -> None:
    yard.people.upload("images/gpu.yaml", yard.recipe)


def _launch(yard: Yard) -> None:
    yard.people.start("dev-host", "sit", {"latest": "gpu", "instance_types": ["g6.xlarge"], "hours": 2})


def _snapshot(yard: Yard) -> None:
    """Snapshot a dev host once it is ready."""
    _launch(yard)

    def call() -> None:
        launched = yard.ec2.find_tagged(Tag.RUN, "sit")
        host = launched[0].id if launched else "i-00000000000000099"
        yard.people.start("snapshot", "keep", {"instance": host})

    yard.after(240, call, "a user requests a snapshot")


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
            "two to four workers, with capacity for three at first",
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
            "two runs at once that need the same warm hosts",
            _rivals,
            gang=2,
            pool_minutes=POOL_MINUTES,
            over=_over(3),
            since="train-admit#2",
            until="train Train #3",
        ),
        Scenario(
            "resumes",
            "a run that others resume while it trains and while it stops",
            _resumes,
            gang=2,
            over=_are_resumed,
            since="train-admit#2",
            until="train Launch #2",
            refused=frozenset({"early-a", "early-b"}),
            resumed={"late-a": "first", "late-b": "first"},
        ),
        Scenario(
            "preempts",
            "a run that leaves its slot to a run of a higher priority, and continues",
            _preempts,
            gang=2,
            over=_over(2),
            settings={"most_runs": 1, "preempt": True},
            since="train-admit#2",
            until="train Train #3",
        ),
        Scenario(
            "study",
            "four trials of a study, two at once",
            _study(SHORT_STUDY),
            timedelta(hours=4),
            gang=1,
            pool_minutes=3,
        ),
        *ORDERED_SCENARIOS,
        *MODEL_SCENARIOS,
        Scenario("bake", "a bake of an image from its recipe", _bake, timedelta(hours=6)),
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
            "a snapshot of a running host",
            _snapshot,
            stays=1,
            over=_over(2),
            since="snapshot-admit#1",
        ),
        Scenario("dev-host", "a host from the yard's image", _launch, stays=1),
        Scenario("retire", "old images are retired", _retire),
        Scenario("patrol", "an unused host", _patrol, over=_nothing_runs),
    )
}
NAMED: Mapping[str, Scenario] = {
    **SCENARIOS,
    "twenty-trials": Scenario(
        "twenty-trials",
        "twenty trials of a study, four at once",
        _study(TWENTY_TRIALS),
        timedelta(hours=8),
        gang=1,
        pool_minutes=3,
    ),
    "long-study": long_study(LONG_STUDY, timedelta(hours=48)),
}
"""The scenarios with those that are simulated only if they are named."""
