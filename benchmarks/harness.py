"""What Trainyard costs a program while it trains: its steps a second by hand, and under the host agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support import quick
from trainyard.client import Yard

ROUNDS = 4
ARGS = {"steps": 6000, "work": 512, "checkpoint-every": 2000}


@dataclass(frozen=True)
class Rates:
    """Steps a second of the best round; the rounds alternate, so that a busy machine is busy for both."""

    by_hand: float
    under_the_agent: float

    @property
    def ratio(self) -> float:
        """1.0: it costs nothing."""
        return round(self.under_the_agent / self.by_hand, 3)


def measure(yard: Yard) -> Rates:
    """Alternate rounds of the same program on one host and by hand."""
    by_hand, under = [], []
    for number in range(ROUNDS):
        by_hand.append(_by_hand())
        under.append(_under_the_agent(yard, number))
    return Rates(round(max(by_hand), 1), round(max(under), 1))


def _by_hand() -> float:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        places = {
            "CHECKPOINTS": "checkpoints",
            "PROGRESS": "progress.jsonl",
            "MODEL": "model",
            "METRICS": "metrics.json",
        }
        settings = {f"TRAINYARD_{key}": str(folder / place) for key, place in places.items()}
        arguments = [word for key, value in ARGS.items() for word in (f"--{key}", str(value))]
        subprocess.run(
            [sys.executable, str(quick.PROGRAMS / "steps.py"), *arguments],
            env=os.environ | settings,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return float(json.loads((folder / "metrics.json").read_text())["steps_per_second"])


def _under_the_agent(yard: Yard, number: int) -> float:
    job = quick.job(
        f"harness-{number}", cluster={"workers": 1}, program={"args": {**ARGS, "step-delay": None}}
    )
    run = yard.start("train", {"job": job})
    run.result(seconds=300)
    return float(run.metrics["steps_per_second"])
