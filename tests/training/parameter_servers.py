"""Real processes of a parameter-server cluster on this machine's loopback, started the way host agents start them."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.training import processes
from tests.training.workers import Worker, free_ports


@dataclass(frozen=True)
class Gang:
    chief: Worker
    workers: list[Worker]
    servers: list[Worker]
    evaluators: list[Worker]

    @property
    def all(self) -> list[Worker]:
        return [self.chief, *self.workers, *self.servers, *self.evaluators]

    def codes(self) -> list[int]:
        """Wait for all processes, and return their exit codes, the chief's first."""
        return [one.wait() for one in self.all]


@contextmanager
def gang(
    module: str,
    folder: Path,
    data: Mapping[str, Path],
    *,
    args: Sequence[str],
    workers: int = 2,
    servers: int = 1,
    evaluators: int = 0,
    told: Mapping[str, str] | None = None,
    folders: Mapping[str, Path] | None = None,
) -> Iterator[Gang]:
    """Run chief, workers, and parameter servers of one program. Processes that still run at the end are killed.

    `folders` are the working folders of processes by name. Other processes start in the present folder.
    """
    ports = iter(free_ports(1 + workers + servers))
    cluster = {
        role: [f"127.0.0.1:{next(ports)}" for _ in range(count)]
        for role, count in (("chief", 1), ("worker", workers), ("ps", servers))
    }
    folder.mkdir(parents=True, exist_ok=True)

    def start(role: str, index: int) -> Worker:
        name = f"{role}-{index}"
        env = {
            **environment(folder, data, role, index),
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}}),
            "TRAINYARD_STRATEGY": "parameter_server",
            **(told or {}),
        }
        start_in = (folders or {}).get(name)
        return launch(["-m", module, *args], env, folder, name, start_in=start_in)

    started = {
        role: [start(role, index) for index in range(count)]
        for role, count in (("ps", servers), ("worker", workers), ("chief", 1), ("evaluator", evaluators))
    }
    gang = Gang(started["chief"][0], started["worker"], started["ps"], started["evaluator"])
    try:
        yield gang
    finally:
        end(gang.all)


@contextmanager
def gang_of_flags(
    module: str,
    folder: Path,
    data: Mapping[str, Path],
    *,
    args: Sequence[str],
    workers: int = 2,
    missing_servers: bool = False,
    told: Mapping[str, str] | None = None,
) -> Iterator[Gang]:
    """Run the processes of a program with flags for their roles: worker 0 is the chief, with one parameter server."""
    server, *members = (f"127.0.0.1:{port}" for port in free_ports(1 + workers))
    folder.mkdir(parents=True, exist_ok=True)

    def start(job: str, index: int) -> Worker:
        hosts = ["--ps_hosts", server, "--worker_hosts", ",".join(members)]
        assignment = ["--job_name", job, "--task_index", str(index)]
        env = {**environment(folder, data, job, index), **(told or {})}
        return launch(["-m", module, *hosts, *assignment, *args], env, folder, f"{job}-{index}")

    servers = [] if missing_servers else [start("ps", 0)]
    chief, *others = [start("worker", index) for index in range(workers)]
    gang = Gang(chief, others, servers, [])
    try:
        yield gang
    finally:
        end(gang.all)


def environment(folder: Path, data: Mapping[str, Path], role: str, index: int) -> dict[str, str]:
    """Return the variables that docs/contracts/programs.md guarantees, with results under `folder`."""
    return {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "TRAINYARD_CHECKPOINTS": str(folder / "checkpoints"),
        "TRAINYARD_FORM_SECONDS": "120",
        "TRAINYARD_INDEX": str(index),
        "TRAINYARD_METRICS": str(folder / "metrics.json"),
        "TRAINYARD_MODEL": str(folder / "model"),
        "TRAINYARD_PROGRESS": str(folder / f"progress-{role}-{index}.jsonl"),
        "TRAINYARD_ROLE": role,
        "TRAINYARD_TENSORBOARD": str(folder / "tensorboard"),
        **{f"TRAINYARD_DATA_{name.upper()}": str(path) for name, path in data.items()},
    }


def launch(
    command: Sequence[str],
    told: Mapping[str, str],
    folder: Path,
    name: str,
    *,
    start_in: Path | None = None,
) -> Worker:
    log, progress = folder / f"{name}.log", Path(told["TRAINYARD_PROGRESS"])
    progress.unlink(missing_ok=True)
    process = processes.start(command, {**os.environ, **told}, start_in or Path.cwd(), log)
    return Worker(process, log, progress)


def end(started: Sequence[Worker]) -> None:
    for one in started:
        one.process.kill()
        one.process.wait()
