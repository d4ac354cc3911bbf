"""How a yard bears many runs and many hosts: a simulated week (week.py), and its growth (growth.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.growth import SIZES, Held
from benchmarks.week import Asked, Week


@dataclass(frozen=True)
class Scale:
    week: Week
    held: list[Held]


def measure() -> Scale:
    """Each in a process of its own: worlds have their own environment, and CPU seconds are one size's alone."""
    told = _told("week")
    asked = {name: Asked(**each) for name, each in told.pop("asked").items()}
    return Scale(Week(**told, asked=asked), [Held(**_told("growth", str(size))) for size in SIZES])


def _told(module: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
