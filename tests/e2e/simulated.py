"""The simulator's half of the conformance tests: `python -m tests.e2e.simulated` prints the runs of each world as JSON.

It runs in a separate process, because botocore calls the simulated AWS there and the local cloud here.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import quick
from trainyard.client.jobs.source import pack_folder
from trainyard.protocol.cluster import Role

if TYPE_CHECKING:
    from simulation.aws.stepfunctions import Execution
    from simulation.yard import Yard

ROOT = Path(__file__).resolve().parents[2]
ACTIONS = {"s3.delete_objects": "s3:DeleteObject"}
"""IAM's names of actions that the gateway does not name."""
FIRST = ("g6.xlarge", "us-east-1b", "spot")
"""The first candidate: the cheapest capacity pool of the settings."""
LONG = {"program": {"args": {"steps": 400, "step-delay": 0.05, "checkpoint-every": 10}}}
JOBS: dict[str, dict[str, Any]] = {
    "clean": {},
    "refused": {},
    "interrupted": LONG,
    "killed": LONG,
    "fails": {"program": {"args": {"step-delay": 0.05, "fail-at": 25}}, "cluster": {"workers": 1}},
}
"""Changes to the quick job by the name of the world."""
LAUNCHED = {"latest": "gpu", "instance_types": ["g6.xlarge"], "market": "on_demand", "hours": 1}
AS_HERE = {
    "boot": (1.0, 2.0), "register": (0.1, 0.2), "agent": (0.5, 1.0), "fetch": (0.1, 0.3), "order": (0.1, 0.3),
    "prepare": (0.1, 0.2), "program": (0.1, 0.2), "peer_gone": (3.0, 3.5), "upload": (0.1, 0.3), "results": (0.1, 0.2),
    "shut_down": (0.1, 0.5),
}  # fmt: skip
"""Durations on a host of the local cloud, whose programs wait for no peer."""
FAULT_SECONDS = 1.0
"""The duration of `localcloud fault`. In this time the chief reports its checkpoint."""
FIRST_PASSES = timedelta(seconds=90)
"""The time until patrol has read the prices, as in a yard that was deployed minutes ago."""
SNAPSHOT_NAME = "kept"


def tell() -> dict[str, list[dict[str, Any]]]:
    """Return the observable results of the runs in each world."""
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    observed: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    return observed


def main() -> None:
    from simulation import assembly
    from simulation.cases import process

    template = process.prepare(assembly.find_assembly())
    observed = {}
    for name, world in worlds().items():
        with contextlib.redirect_stdout(io.StringIO()):
            observed[name] = world(template)
        process.clean_up()
    print(json.dumps(observed, default=str))


def worlds() -> Mapping[str, Callable[[Any], list[dict[str, Any]]]]:
    trained = {name: functools.partial(train, name) for name in JOBS}
    return trained | {"images": images}


# ---------------------------------------------------------------------------------------------------------- the worlds


def train(name: str, template: Any) -> list[dict[str, Any]]:
    yard = a_yard(template)
    yard.s3.write(yard.bucket, quick.PROGRAM_KEY, pack_folder(quick.PROGRAMS))
    yard.s3.write(yard.bucket, "data/few/numbers.txt", b"1\n2\n3\n")
    before = yard.gateway.checked.copy()
    if name == "refused":
        yard.ec2.pools.leave(0, *FIRST)
    yard.people.upload(f"jobs/{name}.json", json.dumps(as_simulated(quick.job(name, **JOBS[name]))).encode())
    if name in ("interrupted", "killed"):
        once_saved(yard, lambda host: strike(yard, name, host))
    run_until_over(yard)
    return [seen(yard, yard.runs()[0], before)]


def images(template: Any) -> list[dict[str, Any]]:
    """Launch a host, then make an image of it."""
    yard = a_yard(template)
    observed: list[dict[str, Any]] = []
    for workflow, given in (("dev-host", LAUNCHED), ("snapshot", {"name": SNAPSHOT_NAME})):
        before = yard.gateway.checked.copy()
        if workflow == "snapshot":
            given = {"instance": next(iter(yard.ec2.ever)), **given}
        yard.people.start(workflow, f"00000000-0000-4000-8000-00000000000{len(observed)}", given)
        run_until_over(yard)
        observed.append(seen(yard, yard.runs()[-1], before))
    return observed


def a_yard(template: Any) -> Yard:
    from simulation.aws.ssm.model import Settings
    from simulation.hosts.delays import Delays
    from simulation.world.world import World
    from simulation.yard import Yard

    yard = Yard(World(1), template)
    yard.machines.delays = Delays(**AS_HERE)
    yard.ssm.settings = Settings(register=(0.1, 0.2))
    yard.world.run(yard.world.now + FIRST_PASSES)
    return yard


def as_simulated(job: dict[str, Any]) -> dict[str, Any]:
    """Convert a job to the arguments of a simulated program."""
    words = {"step-delay": "step-seconds", "fail-at": "error-at", "checkpoint-every": ""}
    given = job["program"]["args"]
    args = {words.get(word, word): value for word, value in given.items() if words.get(word, word)}
    steps = given.get("checkpoint-every", 10)
    program = {**job["program"], "args": args}
    return {**job, "program": program, "checkpoints": {"steps": steps}}


def once_saved(yard: Yard, do: Callable[[str], None]) -> None:
    """Call `do` with the worker's instance after the first checkpoint is in the bucket."""

    def look() -> None:
        for run in yard.runs():
            if yard.read_json(f"runs/{run.name}/checkpoints/latest.json"):
                worker = yard.clusters(run.name)[1].hosts_with_role(Role.WORKER)[0].instance
                yard.after(FAULT_SECONDS, functools.partial(do, worker), "the fault is injected")
                return
        yard.after(0.3, look, "look for a checkpoint")

    look()


def strike(yard: Yard, name: str, host: str) -> None:
    if name == "killed":
        yard.ec2.kill(host)
    else:
        yard.ec2.interrupt(host)
        yard.machines.look(host)


def run_until_over(yard: Yard) -> None:
    """Run until all runs have ended, and 10 s longer for late events."""
    world = yard.world
    world.run(world.now + timedelta(hours=3), stop=lambda: bool(yard.runs()) and yard.all_over())
    assert yard.runs(), "nothing was started"
    assert yard.all_over(), "it does not end"
    world.run(world.now + timedelta(seconds=10))


# ------------------------------------------------------------------------------------------------------ what is seen


def seen(yard: Yard, run: Execution, before: Mapping[Any, int]) -> dict[str, Any]:
    prefix = f"runs/{run.name}/"
    keys = [key.removeprefix(prefix) for key in yard.s3.keys(yard.bucket, prefix)]
    calls: dict[str, dict[str, int]] = {}
    for (role, action), times in sorted(yard.gateway.checked.items()):
        made = times - before.get((role, action), 0)
        if made:
            calls.setdefault(role.rpartition("/")[2], {})[ACTIONS.get(action, action)] = made
    return {
        "run": run.name,
        "status": str(run.status),
        "error": run.error or "",
        "states": [state for _, state, what in run.history if what == "entered"],
        "calls": calls,
        "rows": list(yard.dynamodb.rows(yard.template.table.name, f"run#{run.name}")),
        "timeline": list(yard.dynamodb.rows(yard.template.table.name, f"timeline#{run.name}")),
        "keys": keys,
        "documents": {key: yard.read_json(prefix + key) for key in keys if is_document(key)},
    }


def is_document(key: str) -> bool:
    """Return True for a key whose content is compared."""
    return key.rpartition("/")[2] in ("summary.json", "cluster.json", "plan.json")


if __name__ == "__main__":
    main()
