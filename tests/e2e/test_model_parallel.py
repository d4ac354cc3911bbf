"""A model that is split over two hosts trains on after the second host was lost, to the same result."""

from functools import partial
from typing import Any

from scripts.local_yard import ROOT
from tests.e2e.runs import Runs
from trainyard.client import Run
from trainyard.client.jobs.source import pack_folder

KEY = "programs/examples.tar.gz"
ARGS: dict[str, dict[str, Any]] = {"layers": {"micro-batches": 4}, "dtensor": {"mesh": "batch=2,model=2"}}
SLOW = {"step-delay": 0.7}
"""An epoch of 64 steps takes at least 45 s."""


def split(runs: Runs, module: str, name: str, **args: Any) -> dict[str, Any]:
    """Return a job that runs an example on two hosts."""
    job = runs.job(name, data=None)
    expect = ["model", "metrics", "checkpoint"]
    args = ARGS[module] | {"epochs": 1} | args
    job["program"] = {"source": f"s3://BUCKET/{KEY}", "module": module, "args": args, "expect": expect}
    job["checkpoints"] = {"steps": 5}
    return job


def result(run: Run) -> tuple[Any, Any]:
    """Return the last loss, and the fingerprint of all variables."""
    latest = run.json("checkpoints/latest.json")
    saved = next(key for key in run.keys if key.endswith(f"{latest['step']:08d}/trainyard-metadata.json"))
    return run.json("metrics.json")["loss"], run.json(saved)["fingerprint"]


def last_worker(run: Run) -> str:
    """Return the second host of the run's last gang. A slow machine may need several attempts to form one."""
    clusters = (run.json(f"attempts/{attempt}/cluster.json") for attempt in range(3, 0, -1))
    hosts = next(cluster["hosts"] for cluster in clusters if cluster)
    return str(next(host["instance"] for host in hosts if host["role"] == "worker"))


def test_a_lost_second_host_changes_no_bit_of_the_result(runs: Runs) -> None:
    runs.yard.bucket.put(KEY, pack_folder(ROOT / "examples" / "programs"))
    broken = {module: runs.start(split(runs, module, f"broken-{module}", **SLOW)) for module in ARGS}
    for run in broken.values():
        runs.until("a checkpoint in the bucket", partial(runs.checkpoint_of, run))
        runs.cloud.fault("kill", last_worker(run))
    for module, run in broken.items():
        whole = runs.run(split(runs, module, f"whole-{module}"))
        assert whole.succeeded, whole.why()
        runs.finish(run)
        assert run.succeeded, run.why()
        assert run.summary["attempts"][-1]["from_step"] > 0
        assert result(run) == result(whole)
