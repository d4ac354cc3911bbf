"""Any program as real processes on this machine's loopback, started the way the host agent starts it."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from tests.training.processes import start
from tests.training.workers import Worker, free_ports

EXAMPLES = Path(__file__).parents[2] / "examples" / "programs"


def write_digits(folder: Path) -> Path:
    """Write digits.npz with `images` (1797, 64) from 0 to 1, and `labels` (1797,). Return the folder."""
    scans = load_digits()
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(
        folder / "digits.npz", images=(scans.data / 16).astype("float32"), labels=scans.target.astype("int64")
    )
    return folder


@contextmanager
def started(
    program: Path,
    folder: Path,
    data: Path,
    *,
    strategy: str,
    members: Mapping[str, int],
    told: Mapping[str, str] | None = None,
    args: Mapping[str, str] | None = None,
) -> Iterator[dict[str, Worker]]:
    """Start one process of `program` for each member (a count by role), by `role-index`; without members, only
    `chief-0`. An evaluator gets the addresses of the cluster without being part of it.

    In the values of `told` (environment) and `args`, {role}, {index}, {ps}, and {worker} (addresses) are replaced.
    """
    addresses = iter(free_ports(sum(members.values())))
    cluster = {
        role: [f"127.0.0.1:{next(addresses)}" for _ in range(count)]
        for role, count in members.items()
        if role != "evaluator"
    }
    folder.mkdir(parents=True, exist_ok=True)
    roles = [(role, index) for role, count in members.items() for index in range(count)] or [("chief", 0)]
    processes = {}
    for role, index in roles:
        log, progress = folder / f"{role}-{index}.log", folder / f"progress-{role}-{index}.jsonl"
        progress.unlink(missing_ok=True)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TRAINYARD_")}
        environment |= {
            "PYTHONPATH": str(EXAMPLES.parents[1]),
            "TRAINYARD_STRATEGY": strategy,
            "TRAINYARD_CHECKPOINTS": str(folder / "checkpoints"),
            "TRAINYARD_DATA_DIGITS": str(data),
            "TRAINYARD_METRICS": str(folder / "metrics.json"),
            "TRAINYARD_MODEL": str(folder / "model"),
            "TRAINYARD_PROGRESS": str(progress),
            "TRAINYARD_TENSORBOARD": str(folder / "tensorboard"),
        }
        if members:
            environment["TF_CONFIG"] = json.dumps(
                {"cluster": cluster, "task": {"type": role, "index": index}}
            )
        filled = {
            "role": role,
            "index": str(index),
            "ps": ",".join(cluster.get("ps", [])),
            "worker": ",".join(cluster.get("worker", [])),
        }
        environment |= {key: value.format(**filled) for key, value in (told or {}).items()}
        line = [word for key, value in (args or {}).items() for word in (f"--{key}", value.format(**filled))]
        process = start([str(program), *line], environment, folder, log)
        processes[f"{role}-{index}"] = Worker(process, log, progress)
    try:
        yield processes
    finally:
        for worker in processes.values():
            worker.process.kill()
            worker.process.wait()


def fingerprint(folder: Path, step: int) -> str:
    """Return the values of all variables in a checkpoint."""
    metadata = json.loads((folder / "checkpoints" / f"{step:08d}" / "trainyard-metadata.json").read_text())
    return str(metadata["fingerprint"])


def resumed_lines(progress: Path) -> list[dict[str, Any]]:
    """Return the lines of a progress file. Each names the checkpoint found at the start."""
    return [json.loads(line) for line in progress.read_text().splitlines()]
