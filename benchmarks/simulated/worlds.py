"""CPU time of a clean simulated run of two hosts, and memory of a process after hundreds of worlds."""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import asdict, dataclass

import psutil

from simulation import assembly
from simulation.cases import findings, process
from simulation.cases.case import Case

FEW, MANY = 100, 1_000
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Worlds:
    """Median CPU seconds of a world, and resident memory in MiB after FEW and after MANY worlds."""

    seconds: float
    after_few: float
    after_many: float


def measure() -> Worlds:
    folder, me = assembly.find_assembly(), psutil.Process()
    seconds, held = [], {}
    for seed in range(1, MANY + 1):
        result = findings.run_case(folder, Case("train", seed=seed))
        if result.finding.violations:
            raise RuntimeError(f"seed {seed}: {result.finding.violations}")
        seconds.append(result.finding.cpu)
        if seed in (FEW, MANY):
            held[seed] = round(me.memory_info().rss / MEBIBYTE, 1)
    return Worlds(round(statistics.median(seconds), 3), held[FEW], held[MANY])


if __name__ == "__main__":
    process.restart_as_needed()
    sys.stdout.write(json.dumps(asdict(measure())) + "\n")
