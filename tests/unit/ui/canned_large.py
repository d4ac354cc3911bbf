"""A canned yard with 10,000 runs. The largest run has 200 scalars and 50 hosts of 8 GPUs.

`python -m tests.unit.ui.canned_large [RUNS] [SCALARS] [HOSTS]` serves its page. Each scalar was reported 100,000 times.
The host keeps 40,000 samples of all scalars together, 200 of each one (training/host/reporting/scalars.py).
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import exp, sin
from typing import Any

from tests.unit.ui.canned import (
    POOL,
    Clock,
    Cloud,
    Story,
    attempt_row,
    cloud,
    event,
    host_row,
    last_launch,
    launch_request,
    log,
    other,
    plan,
    run_row,
    stamp,
)
from trainyard.core.model.host_use import HostUse

LARGE = "large-0a1b2c3d"
LARGE_PAGE = f"/runs/{LARGE}"
RUNS, SCALARS, HOSTS = 10_000, 200, 50
POINTS, SAMPLES, MINUTES, GPUS = 100_000, 40_000, 400, 8
LABELS = ("train", "val", "gradients", "layers", "optimizer")


def large(runs: int = RUNS, scalars: int = SCALARS, hosts: int = HOSTS, now: datetime | None = None) -> Cloud:
    """Return the yard."""
    now = now or datetime.now(UTC)
    made = cloud(0, 40, now)
    stories = [large_run(now, scalars, hosts), *(other(now, number, minutes=1) for number in range(runs))]
    made.stories |= {story.id: story for story in stories}
    return made


def large_run(now: datetime, scalars: int, hosts: int) -> Story:
    begun = now - timedelta(minutes=MINUTES + 3)
    at = Clock(begun)
    each = SAMPLES // scalars
    curves = {
        f"{LABELS[number % len(LABELS)]}/scalar_{number:03}": [
            [
                (sample + 1) * POINTS // each,
                exp(-sample / each * (1 + number % 7)) + sin(number + sample / 9) / 40,
                int(at(95 + sample * 60 * MINUTES / each).timestamp()),
                sample // 10,
            ]
            for sample in range(each)
        ]
        for number in range(scalars)
    }
    losses = [{"step": 200 * (n + 1), "loss": 2.3 * exp(-n / 120) + sin(n) / 30} for n in range(500)]
    names = [f"i-{number:04}" for number in range(hosts)]
    roles = ["chief 0", *(f"worker {number}" for number in range(1, hosts))]
    machines = [
        {"instance": name, "role": role.split()[0], "index": number}
        for number, (name, role) in enumerate(zip(names, roles, strict=True))
    ]
    files = {
        "job.json": b"{}",
        "metrics.json": json.dumps({"samples": losses, "scalars": curves}).encode(),
        "attempts/1/cluster.json": json.dumps({"hosts": machines}).encode(),
        "attempts/1/logs/chief-0/00000001.log": log(
            "chief-0",
            names[0],
            ((at(100 + n), f"step {n}  loss {2.3 * exp(-n / 300):.4f}") for n in range(2000)),
        ),
    }
    files |= {
        f"attempts/1/use/{role.replace(' ', '-')}.json": use_file(name, role, number, begun)
        for number, (name, role) in enumerate(zip(names, roles, strict=True))
    }
    progress: dict[str, Any] = {"step": POINTS, "steps": 2 * POINTS, "loss": 0, "steps_per_second": 4}
    return Story(
        row=run_row(LARGE, begun, last_launch=last_launch(POOL, hosts, Decimal(20)), progress=progress),
        rows=[
            plan("us-east-1a"),
            launch_request(0, at(8), POOL, answer="launched"),
            attempt_row(1, at(12), started=stamp(at(95)), from_step=0),
            *(host_row(name, at(12), type="p5.48xlarge") for name in names),
        ],
        timeline=[event(at(12), "launched", reason=POOL)],
        states=[
            (at(0), "Admit"),
            (at(3), "Plan"),
            (at(7), "Launch"),
            (at(14), "AwaitHosts"),
            (at(95), "Train"),
        ],
        files=files,
    )


def use_file(instance: str, role: str, number: int, begun: datetime) -> bytes:
    """Return the file of a host, with a sample for each minute."""
    names = ["processors", "memory", "input", "disk_read", "disk_written", "received", "sent"]
    names += [
        f"{measure}.{gpu}" for measure in ("gpu_celsius", "gpu_watts", "gpu_mhz") for gpu in range(GPUS)
    ]
    times = [int(begun.timestamp()) + 60 * minute for minute in range(1, MINUTES)]
    columns: dict[str, list[float | None]] = {
        name: [50 + at % 7 + 30 * sin(number + at / 40) + 10 * len(name) for at in range(len(times))]
        for name in names
    }
    return HostUse(instance, role, 192, 2_000_000, GPUS, times, columns).to_text().encode()


if __name__ == "__main__":
    from trainyard.ui.serve import serve

    given = [int(word) for word in sys.argv[1:]]
    runs, scalars, hosts = (*given, *(RUNS, SCALARS, HOSTS)[len(given) :])
    shown = large(runs, scalars, hosts)
    serve(shown.yard, shown.yard(), 0, lambda address, _: print(address, flush=True))
