"""Pause of a step for a checkpoint, measured by benchmarks/programs/pause.py in TensorFlow's environment."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from scripts.datasets import HOST_PYTHON
from scripts.local_yard import ROOT


@dataclass(frozen=True)
class Pause:
    """Seconds of a save of this many megabytes of variables. `plain_seconds` is TensorFlow's own write."""

    megabytes: int
    seconds: float
    plain_seconds: float


def measure() -> list[Pause]:
    """Measure small, medium and large models."""
    command = [str(HOST_PYTHON), "-m", "benchmarks.programs.pause"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return [Pause(**row) for row in json.loads(done.stdout.splitlines()[-1])]
