"""Real worker processes on this machine's loopback, started the way the host agent starts them."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.training.processes import Process, start

PATIENCE_SECONDS = 400.0


@dataclass(frozen=True)
class Worker:
    process: Process
    log: Path
    progress: Path

    def wait(self) -> int:
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def wait_for_step(self, step: int) -> None:
        """Wait until this worker has reported this step or a later one."""
        wait_until(lambda: self.process.poll() is not None or self.step() >= step)
        assert self.process.poll() is None, f"the worker ended early:\n{self.log.read_text()}"

    def step(self) -> int:
        if not self.progress.exists():
            return 0
        return max((json.loads(line)["step"] for line in self.progress.read_text().splitlines()), default=0)


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def free_ports(count: int) -> list[int]:
    addresses = [socket.socket() for _ in range(count)]
    for listener in addresses:
        listener.bind(("127.0.0.1", 0))
    ports = [listener.getsockname()[1] for listener in addresses]
    for listener in addresses:
        listener.close()
    return ports


@contextmanager
def gang(size: int, folder: Path, data: Path, *, args: list[str]) -> Iterator[list[Worker]]:
    """Run `size` workers of the digits program as a cluster. Processes that still run at the end are killed."""
    members = [f"127.0.0.1:{port}" for port in free_ports(size)]
    workers = []
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(size):
        log, progress = folder / f"worker-{index}.log", folder / f"progress-{index}.jsonl"
        progress.unlink(missing_ok=True)
        told = {
            "TF_CONFIG": json.dumps(
                {"cluster": {"worker": members}, "task": {"type": "worker", "index": index}}
            ),
            "TRAINYARD_CHECKPOINTS": str(folder / "checkpoints"),
            "TRAINYARD_DATA_TEST": str(data / "test"),
            "TRAINYARD_DATA_TRAIN": str(data / "train"),
            "TRAINYARD_METRICS": str(folder / "metrics.json"),
            "TRAINYARD_MODEL": str(folder / "model"),
            "TRAINYARD_PROGRESS": str(progress),
            "TRAINYARD_TENSORBOARD": str(folder / "tensorboard"),
        }
        command = ["-m", "training.programs.digits", *args]
        process = start(command, os.environ | told, Path.cwd(), log)
        workers.append(Worker(process, log, progress))
    try:
        yield workers
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.wait()


def checkpoint_steps(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in (folder / "checkpoints").iterdir() if path.name.isdigit())


def weights(folder: Path, step: int) -> bytes:
    """Return the bytes of all variables in a checkpoint."""
    return (folder / "checkpoints" / f"{step:08d}" / "variables.data-00000-of-00001").read_bytes()
