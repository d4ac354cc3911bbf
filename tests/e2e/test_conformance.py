"""The same stories on the deployed local cloud and in the simulator: states, calls, rows, keys, timelines are alike."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e import simulated
from tests.e2e.runs import Runs
from tests.e2e.seen import Seen, is_background
from tests.e2e.simulated import FIRST, JOBS, LAUNCHED, SNAPSHOT_NAME, is_document
from tests.e2e.watch import ec2
from tests.support.calls import calls, less
from trainyard.client import Run

Told = list[dict[str, Any]]
QUIET_SECONDS = 2.0


# ------------------------------------------------------------------------------------------------- on the local cloud


def clean(runs: Runs) -> Told:
    return [watched(runs, lambda: runs.run(runs.job("clean", **JOBS["clean"])))]


def fails(runs: Runs) -> Told:
    return [watched(runs, lambda: runs.run(runs.job("fails", **JOBS["fails"])))]


def refused(runs: Runs) -> Told:
    def refuse_the_first() -> Run:
        runs.cloud.fault("refuse", *FIRST)
        return runs.run(runs.job("refused", **JOBS["refused"]))

    return [watched(runs, refuse_the_first)]


def interrupted(runs: Runs) -> Told:
    return [struck(runs, "interrupted", "interrupt")]


def killed(runs: Runs) -> Told:
    return [struck(runs, "killed", "kill")]


def struck(runs: Runs, name: str, fault: str) -> dict[str, Any]:
    def strike() -> Run:
        run = runs.in_mid_training(runs.job(name, **JOBS[name]))
        runs.cloud.fault(fault, runs.host_of(run, "worker"))
        return runs.finish(run)

    return watched(runs, strike)


def images(runs: Runs) -> Told:
    made: list[Run] = []

    def launch() -> Run:
        made.append(runs.finish(runs.yard.start("dev-host", dict(LAUNCHED))))
        return made[-1]

    def snapshot() -> Run:
        """Its program goes on before there is an image, as on AWS, where that takes minutes."""
        runs.cloud.fault("image-slow", "600")
        run = runs.yard.start("snapshot", {"instance": host, "name": SNAPSHOT_NAME})
        runs.until("the program goes on", lambda: "resumed" in [entry.event for entry in run.timeline])
        runs.cloud.fault("image-slow", "0")
        return runs.finish(run)

    launched = watched(runs, launch)
    host = made[0].summary["instance"]
    try:
        imaged = watched(runs, snapshot)
    finally:
        ec2(runs).terminate_instances(InstanceIds=[host])
    return [launched, imaged]


REAL: Mapping[str, Callable[[Runs], Told]] = {
    each.__name__: each for each in (clean, fails, refused, interrupted, killed, images)
}


def watched(runs: Runs, do: Callable[[], Run]) -> dict[str, Any]:
    """What everybody can see of the run."""
    runs.until_prices()
    before = settled(runs)
    run = do()
    made = less(settled(runs), before)
    execution, keys = run.execution, run.keys
    return {
        "run": run.id,
        "status": execution.status,
        "error": execution.error,
        "states": [state.name for state in run.states],
        "calls": made,
        "rows": run.yard.partition(f"run#{run.id}"),
        "timeline": runs.yard.partition(f"timeline#{run.id}"),
        "keys": keys,
        "documents": {key: run.json(key) for key in keys if is_document(key)},
    }


def settled(runs: Runs) -> dict[str, dict[str, int]]:
    """All calls, once what the end of a run or a bake has set going is over, too."""
    while True:
        before = calls(runs.yard)
        time.sleep(QUIET_SECONDS)
        after = calls(runs.yard)
        asked = (each for each, counts in less(after, before).items() if counts and not is_background(each))
        if not any(asked):
            return after


# ------------------------------------------------------------------------------------------------------- both alike


@dataclass(frozen=True)
class Stays:
    """A difference that is none of the product's, by what the test says of it."""

    pattern: str
    reason: str

    def is_it(self, line: str) -> bool:
        return re.search(self.pattern, line) is not None


STAYS = (
    Stays(
        r"keys: only in the simulator: tensorboard/\*|summary\.json where tensorboard: str",
        "the simulated program stands for one of TensorFlow, which writes events; the quick program writes none",
    ),
    Stays(
        r"in the simulator: summary\.json resume restores\[\] (batch|epoch|global_batch_size): number",
        "what a program says of where it resumed is its own: the quick program says step and verified alone",
    ),
    Stays(
        r"timeline of worker-1: only (on|in) the .*: stopped \(attempt 1\): told to leave \[(step)?\]",
        "TensorFlow's workers report their steps, as the simulated ones do; of the quick program the chief alone does",
    ),
    Stays(
        r"interrupted: (timeline of worker-1: only .*: stopped \(attempt 2\): told to leave \[\]|rows: only .*: host#: "
        r"address, attempt=1, .*, stopped=[12], stopped_at, )",
        "a worker that is at its last steps as the run ends is told to leave: chance, and its row has the attempt",
    ),
    Stays(
        r"(clean|refused): keys: .* attempts/1/words/worker-1|(interrupted|killed): keys: .* attempts/2/words/worker-1",
        "a worker that finishes says nothing; one that is at its last steps as the run ends is told to leave: chance",
    ),
    Stays(
        r"interrupted: keys: only (in|on) the .*: attempts/1/leaving/worker-1\.json",
        "a host that AWS takes looks for orders every five seconds, until its program has left: chance",
    ),
)


@pytest.fixture(scope="module")
def worlds() -> dict[str, Told]:
    return simulated.tell()


@pytest.mark.parametrize("name", REAL)
def test_the_simulator_does_as_the_local_cloud(runs: Runs, worlds: dict[str, Told], name: str) -> None:
    told = REAL[name](runs)
    assert len(told) == len(worlds[name])
    lines = [
        f"{name}: {each}"
        for real, ours in zip(told, worlds[name], strict=True)
        for each in Seen.of(real).differences(Seen.of(ours))
    ]
    differences = [line for line in lines if not any(known.is_it(line) for known in STAYS)]
    assert not differences, "\n".join(differences)
