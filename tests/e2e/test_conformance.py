"""Compare runs on the local cloud and in the simulator: states, calls, rows, keys and timelines."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e import simulated
from tests.e2e.observed import Seen, is_background
from tests.e2e.runs import Runs
from tests.e2e.simulated import FIRST, JOBS, LAUNCHED, SNAPSHOT_NAME, is_document
from tests.e2e.watch import ec2
from tests.support.calls import calls, less
from trainyard.client import Run

Observed = list[dict[str, Any]]
QUIET_SECONDS = 2.0


# ------------------------------------------------------------------------------------------------- on the local cloud


def clean(runs: Runs) -> Observed:
    return [watched(runs, lambda: runs.run(runs.job("clean", **JOBS["clean"])))]


def fails(runs: Runs) -> Observed:
    return [watched(runs, lambda: runs.run(runs.job("fails", **JOBS["fails"])))]


def refused(runs: Runs) -> Observed:
    def refuse_the_first() -> Run:
        runs.cloud.fault("refuse", *FIRST)
        return runs.run(runs.job("refused", **JOBS["refused"]))

    return [watched(runs, refuse_the_first)]


def interrupted(runs: Runs) -> Observed:
    return [struck(runs, "interrupted", "interrupt")]


def killed(runs: Runs) -> Observed:
    return [struck(runs, "killed", "kill")]


def struck(runs: Runs, name: str, fault: str) -> dict[str, Any]:
    def strike() -> Run:
        run = runs.in_mid_training(runs.job(name, **JOBS[name]))
        runs.cloud.fault(fault, runs.host_of(run, "worker"))
        return runs.finish(run)

    return watched(runs, strike)


def images(runs: Runs) -> Observed:
    made: list[Run] = []

    def launch() -> Run:
        made.append(runs.finish(runs.yard.start("dev-host", dict(LAUNCHED))))
        return made[-1]

    def snapshot() -> Run:
        """Delay the image, so that the program continues before it exists, as on AWS."""
        runs.cloud.fault("image-slow", "600")
        run = runs.yard.start("snapshot", {"instance": host, "name": SNAPSHOT_NAME})
        runs.until("the program continues", lambda: "resumed" in [entry.event for entry in run.timeline])
        runs.cloud.fault("image-slow", "0")
        return runs.finish(run)

    launched = watched(runs, launch)
    host = made[0].summary["instance"]
    try:
        imaged = watched(runs, snapshot)
    finally:
        ec2(runs).terminate_instances(InstanceIds=[host])
    return [launched, imaged]


REAL: Mapping[str, Callable[[Runs], Observed]] = {
    each.__name__: each for each in (clean, fails, refused, interrupted, killed, images)
}


def watched(runs: Runs, do: Callable[[], Run]) -> dict[str, Any]:
    """Return the observable results of a run."""
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
    """Return the counts of all calls after the last effects of a run or bake have ended."""
    while True:
        before = calls(runs.yard)
        time.sleep(QUIET_SECONDS)
        after = calls(runs.yard)
        asked = (each for each, counts in less(after, before).items() if counts and not is_background(each))
        if not any(asked):
            return after


# ------------------------------------------------------------------------------------------------------- comparison


@dataclass(frozen=True)
class Accepted:
    """A difference with a cause outside of the product."""

    pattern: str
    reason: str

    def matches(self, line: str) -> bool:
        return re.search(self.pattern, line) is not None


ACCEPTED = (
    Accepted(
        r"keys: only in the simulator: tensorboard/\*|summary\.json where tensorboard: str",
        "the simulated program stands for one of TensorFlow, which writes events; the quick program writes none",
    ),
    Accepted(
        r"in the simulator: summary\.json resume restores\[\] (batch|epoch|global_batch_size): number",
        "each program reports its own restore: the quick program reports only step and verified",
    ),
    Accepted(
        r"timeline of worker-1: only (on|in) the .*: stopped \(attempt 1\): asked to leave \[(step)?\]",
        "TensorFlow's workers report their steps, as simulated ones do; in the quick program only the chief does",
    ),
    Accepted(
        r"interrupted: (timeline of worker-1: only .*: stopped \(attempt 2\): asked to leave \[\]|"
        r"rows: only .*: host#: address, attempt=1, .*, stopped=[12], stopped_at, )",
        "a worker at its last steps when the run ends may be asked to leave by chance; its row has the attempt",
    ),
    Accepted(
        r"(clean|refused): keys: .* attempts/1/signals/worker-1|"
        r"(interrupted|killed): keys: .* attempts/2/signals/worker-1",
        "a worker that finishes reports nothing; a worker at its last steps when the run ends may be asked to leave",
    ),
    Accepted(
        r"interrupted: keys: only (in|on) the .*: attempts/1/drain-confirmations/worker-1\.json",
        "an interrupted host reads its orders every five seconds until its program has left, so it may miss one",
    ),
)


@pytest.fixture(scope="module")
def worlds() -> dict[str, Observed]:
    return simulated.tell()


@pytest.mark.parametrize("name", REAL)
def test_the_simulator_does_as_the_local_cloud(runs: Runs, worlds: dict[str, Observed], name: str) -> None:
    real_runs = REAL[name](runs)
    assert len(real_runs) == len(worlds[name])
    lines = [
        f"{name}: {each}"
        for real, ours in zip(real_runs, worlds[name], strict=True)
        for each in Seen.of(real).differences(Seen.of(ours))
    ]
    differences = [line for line in lines if not any(known.matches(line) for known in ACCEPTED)]
    assert not differences, "\n".join(differences)
