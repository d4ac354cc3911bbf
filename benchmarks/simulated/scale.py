"""Scale of a yard: a simulated week (week.py), growth with hosts (growth.py), and the simulator's own cost (worlds.py).

Each runs in a separate process, because worlds change the environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.simulated.growth import SIZES, Held
from benchmarks.simulated.week import RequestCounts, Week
from benchmarks.simulated.worlds import Worlds


@dataclass(frozen=True)
class Scale:
    week: Week
    held: list[Held]


def measure() -> Scale:
    """Measure in one process for each size, so that CPU seconds are separate."""
    results = _measure("week")
    requests = {name: RequestCounts(**each) for name, each in results.pop("requests").items()}
    return Scale(
        Week(**results, requests=requests), [Held(**_measure("growth", str(size))) for size in SIZES]
    )


def worlds() -> Worlds:
    return Worlds(**_measure("worlds"))


def _measure(module: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.simulated.{module}", *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
