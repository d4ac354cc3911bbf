"""The scenarios: runs on which faults are tried, each with its expected result."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from simulation.faults import PERSON
from simulation.studies import LONG_STUDY, SHORT_STUDY, TWENTY_TRIALS, Search
from simulation.yard import models
from simulation.yard.deployment import add_baked_image
from trainyard.protocol import keys
from trainyard.protocol.tags import Tag

if TYPE_CHECKING:
    from simulation.yard import Yard

STEPS, STEP_SECONDS, CHECKPOINT_STEPS = 40, 2.0, 10
POOL_MINUTES = 6
PATIENCE = timedelta(minutes=5)
"""The longest wait, after the first run has ended, for its hosts to become warm before the next jobs are uploaded."""
SHORT = {"module": "training.programs.digits", "args": {"steps": 4, "step-seconds": STEP_SECONDS}}
"""A short program. Scenarios with warm hosts test how a run gets and leaves the hosts, so the program hardly matters.
"""


@dataclass(frozen=True)
class Scenario:
    """Runs that are started in a yard, and what must hold at their end."""

    name: str
    what: str
    begin: Callable[[Yard], None]
    """Starts the runs."""
    longest: timedelta = timedelta(hours=3)
    """The time from the start within which every run must have ended."""
    gang: int = 0
    """The number of hosts that each attempt must have, or may have at most; 0 if the scenario trains nothing."""
    least: int = 0
    """The minimum number of hosts of each attempt; 0: `gang`."""
    stays: int = 0
    """The number of hosts that stay after the run has succeeded."""
    over: Callable[[Yard], bool] = lambda yard: bool(yard.runs()) and yard.all_over()
    """Returns True once the scenario is complete."""
    since: str = ""
    """The first fault point that only this scenario has. Earlier single faults are tried in another scenario."""
    until: str = ""
    """The first fault point after the part that only this scenario has. Later single faults are tried in another
    scenario."""
    pool_minutes: float | None = None
    """The minutes for which its jobs keep hosts warm."""
    refused: frozenset[str] = frozenset()
    """Names of the runs that must be refused."""
    resumed: Mapping[str, str] = field(default_factory=dict)
    """Names of runs, with the job whose last checkpoint the run must resume from."""
    versions: frozenset[str] = frozenset()
    """Labels of the versions that must be ready at the end."""
    default: int | None = None
    """The version that `default` must name at the end."""
    cpu_seconds: float | None = None
    """The processor time of a world that takes longer than others. It is simulated only if it is named."""


HARDWARE: dict[str, Any] = {
    "instance_types": ["g6.xlarge", "g5.xlarge", "g4dn.xlarge"],
    "market": "spot_then_on_demand",
    "max_dollars_per_hour": 8.0,
}


def job(name: str, cluster: Mapping[str, Any], **more: Any) -> bytes:
    """Return a job file. Its program takes 40 steps of 2 s and saves a checkpoint every 10 steps."""
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


def _version(yard: Yard) -> None:
    """Train on one host. The job requests a version, and a user creates another one of the run."""
    users = yard.model_users

    def once_it_is_over() -> None:
        run = next((each.name for each in yard.runs() if each.machine.name.endswith("-train")), None)
        if run and yard.all_over():
            users.begin(models.version("again", run))
            users.busy -= 1
        else:
            yard.after(20, once_it_is_over, "a user checks whether the run has ended")

    def upload() -> None:
        after = {"hosts": "terminate", "image": "never", "model": {"name": models.MODEL, "alias": "default"}}
        document = job("one", {"strategy": "single"}, program=SHORT, after=after)
        yard.people.upload(f"{keys.owned(keys.JOBS, PERSON)}one.json", document)
        yard.after(20, once_it_is_over, "a user checks whether the run has ended")

    users.busy += 1
    users.begin(models.create(), then=upload)


def _winner(yard: Yard) -> None:
    """Search with a study whose best trial becomes a version."""
    after = {"hosts": "terminate", "image": "never", "model": {"name": models.MODEL}}
    document = json.loads(job("study", {"strategy": "single"}, after=after))
    yard.model_users.begin(models.create(), then=lambda: SHORT_STUDY.begin(yard, document))


def _is_version_made(yard: Yard) -> bool:
    """Return True once the study has ended, and the version that it requested."""
    return models.is_over(yard) and any(each.machine.name.endswith("-study") for each in yard.runs())


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
            "study",
            "six trials of a study, two at once",
            _study(SHORT_STUDY),
            timedelta(hours=4),
            gang=1,
            pool_minutes=3,
        ),
        Scenario(
            "version",
            "a run whose model becomes a version, twice",
            _version,
            gang=1,
            over=models.is_over,
            since="train Conclude #1",
            versions=frozenset({"v1", "again"}),
            default=1,
        ),
        Scenario(
            "versions",
            "two new versions of a model at once",
            models.two_at_once,
            over=models.is_over,
            versions=frozenset({"v1", "second"}),
        ),
        Scenario(
            "aliases",
            "a default that moves on and back while predictions are made",
            models.move_aliases,
            over=models.is_over,
            since="version Admit #3",
            versions=frozenset({"v1"}),
            default=1,
        ),
        Scenario(
            "winner",
            "a study whose best trial becomes a version",
            _winner,
            timedelta(hours=4),
            gang=1,
            pool_minutes=3,
            over=_is_version_made,
            since="study Conclude #1",
            versions=frozenset({"v1"}),
        ),
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
