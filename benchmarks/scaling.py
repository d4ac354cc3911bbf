"""Two hosts in step: steps a second of the same TensorFlow program under Trainyard, and as two processes by hand."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks import quick
from demo.cloud import ROOT
from demo.datasets import DIGITS, HOST_PYTHON, MADE
from demo.yard import Yard

MODULE = "training.programs.digits"
ARGS = {"epochs": 24, "global-batch-size": 512, "checkpoint-every": 1000}
ROUNDS = 2
SETTLING = 2
"""Reports of a run that are left out: functions are still traced, threads still woken."""


@dataclass(frozen=True)
class Scaling:
    """Steps a second of two hosts: the median of what the chief reports a second, of the best round."""

    by_hand: float
    under_trainyard: float

    @property
    def ratio(self) -> float:
        """1.0: it costs nothing."""
        return round(self.under_trainyard / self.by_hand, 3)


def measure(yard: Yard) -> Scaling:
    """Alternate rounds, so that a busy machine is busy for both."""
    data = DIGITS.made_in(MADE)
    yard.upload_folder(data, DIGITS.prefix)
    by_hand, under = [], []
    for number in range(ROUNDS):
        by_hand.append(_by_hand(data))
        under.append(_under_trainyard(yard, number))
    return Scaling(round(max(by_hand), 2), round(max(under), 2))


def pace(reports: list[dict[str, float]]) -> float:
    """The median of `steps_per_second` once it has settled."""
    rates = [report["steps_per_second"] for report in reports if "steps_per_second" in report]
    return statistics.median(rates[SETTLING:])


def _by_hand(data: Path) -> float:
    with tempfile.TemporaryDirectory() as name:
        addresses = [f"127.0.0.1:{_free_port()}" for _ in range(2)]
        programs = [_process(index, addresses, data, Path(name) / str(index)) for index in range(2)]
        for program in programs:
            if program.wait() != 0:
                raise RuntimeError(f"{MODULE} by hand ended with {program.returncode}")
        lines = (Path(name) / "0" / "progress.jsonl").read_text().splitlines()
        return pace([json.loads(line) for line in lines])


def _process(index: int, addresses: list[str], data: Path, folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir()
    cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    places = {"CHECKPOINTS": "checkpoints", "TENSORBOARD": "tensorboard", "MODEL": "model"}
    files = {"PROGRESS": "progress.jsonl", "METRICS": "metrics.json"}
    settings = {f"TRAINYARD_{key}": str(folder / place) for key, place in (places | files).items()}
    settings |= {f"TRAINYARD_DATA_{part.upper()}": str(data / part) for part in ("train", "test")}
    arguments = [word for key, value in ARGS.items() for word in (f"--{key}", str(value))]
    return subprocess.Popen(
        [str(HOST_PYTHON), "-m", MODULE, *arguments],
        cwd=ROOT,
        env=os.environ | settings | {"TF_CONFIG": json.dumps(cluster), "TF_CPP_MIN_LOG_LEVEL": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _under_trainyard(yard: Yard, number: int) -> float:
    folder = f"s3://BUCKET/{DIGITS.prefix}"
    job = quick.job(
        f"scaling-{number}",
        program={"source": None, "module": MODULE, "args": None},
        data={"few": None, "train": f"{folder}train/", "test": f"{folder}test/"},
    )
    job["program"]["args"] = ARGS
    execution = yard.wait(yard.start(yard.train, {"job": job}), seconds=600)
    metrics = yard.read_json(f"runs/{execution.name}/metrics.json")
    if execution.status != "SUCCEEDED" or metrics is None:
        raise RuntimeError(f"{execution.name} {execution.status}: {execution.cause}")
    return pace(metrics["samples"])
