"""What the agent spends on folders of very many files: benchmarks/programs/folders.py, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from scripts.local_yard import ROOT


@dataclass(frozen=True)
class Folders:
    """Processor seconds of one look at 100,000 files, and megabytes with 200,000 outputs, of which `kept` are kept."""

    outputs_seconds: float
    checkpoints_seconds: float
    kept: int
    peak_mb: float


def measure() -> Folders:
    """Make the folders, look at them, and upload the outputs to a bucket that keeps nothing."""
    command = [sys.executable, "-m", "benchmarks.programs.folders"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return Folders(**json.loads(done.stdout.splitlines()[-1]))
