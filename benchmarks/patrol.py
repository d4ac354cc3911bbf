"""Patrol over 100, 1,000 and 10,000 hosts, with recorded answers of EC2: calls, seconds, memory, dollars.

In the quiet pass every host without a run is checked as often as its window requires. The busy pass stops all of them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

from lambdas.workflows import patrol
from tests.support.recorded import CONTEXT, Host, Recorded, answering
from trainyard.protocol.tags import Tag

SIZES = (100, 1_000, 10_000)
PASSES_A_DAY = 1440
DOLLARS = {"lambda_gb_second": 0.0000133334, "lambda_request": 0.2e-6, "metric": 0.01e-3, "write": 0.625e-6}
"""Prices in us-east-1 in 2026, for arm64."""
MEMORY_GIB = 0.5
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MACHINES = tuple(
    f"arn:aws:states:us-east-1:1:stateMachine:trainyard-{word}"
    for word in ("train", "bake", "snapshot", "dev-host")
)
RUN = {
    "sk": "run",
    "kind": "train",
    "state": "Train",
    "attempt": 1,
    "created": "2026-11-20T10:00:00.000Z",
    "execution_arn": "its own",
    "deadline": "2026-11-21T10:00:00.000Z",
    "progress": {"step": 1840, "attempt": 1, "at": "2026-11-20T12:06:00.000Z"},
}
"""Row of a running job with time left."""


@dataclass(frozen=True)
class Pass:
    """A pass over `size` hosts, half of them in runs. `looking_cents` is the daily cost of a host without a run."""

    hosts: int
    calls: int
    seconds: float
    memory_mib: float
    metrics: int
    stop_calls: int
    stop_seconds: float
    read_cents: float


def measure() -> list[Pass]:
    """Measure each size in a separate process, so that memory counts only this size."""
    found = []
    for size in SIZES:
        command = [sys.executable, "-m", "benchmarks.patrol", str(size)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1]
        )
        found.append(Pass(**json.loads(done.stdout.splitlines()[-1])))
    return found


def one(size: int) -> Pass:
    """Run the quiet pass, then the two passes that stop all hosts without a run."""
    quiet = _account(size, share=80.0)
    with _environment(), answering(quiet):
        _look(0)  # each host gets its first verdict and its tag
        quiet.calls.clear()
        quiet.metrics_asked = 0
        seconds = _look(1)
    memory = _most_memory()
    idle = _account(size, share=0.0)
    with _environment(), answering(idle):
        # each host's turn, and a second check of the hosts beyond one pass's limit
        stop_seconds = sum(_look(minute) for minute in range(7))
    running = [host for host in idle.hosts.values() if host.state == "running"]
    assert len(running) == size // 2, "the hosts of live runs, and only they"
    return Pass(
        hosts=size,
        calls=sum(quiet.calls.values()),
        seconds=round(seconds, 3),
        memory_mib=round(memory, 1),
        metrics=quiet.metrics_asked,
        stop_calls=idle.calls["ec2:StopInstances"],
        stop_seconds=round(stop_seconds, 2),
        read_cents=round(100 * _dollars_a_day(quiet.metrics_asked, seconds) / (size / 2), 4),
    )


def _most_memory() -> float:
    """Return the peak memory of this process in MiB. getrusage would include the parent process."""
    status = Path("/proc/self/status").read_text()
    (kibibytes,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(kibibytes) / 1024


def _look(minute: int) -> float:
    """Run a pass at this many minutes after noon. Return its seconds."""
    began = time.perf_counter()
    with mock.patch.object(patrol, "clock", return_value=NOON + timedelta(minutes=minute)):
        patrol.handler({}, CONTEXT)
    return time.perf_counter() - began


def _dollars_a_day(metrics: int, seconds: float) -> float:
    """Return the dollars a day for one such pass a minute."""
    function = seconds * MEMORY_GIB * DOLLARS["lambda_gb_second"] + DOLLARS["lambda_request"]
    return PASSES_A_DAY * (metrics * DOLLARS["metric"] + function + 2 * DOLLARS["write"])


def _account(size: int, *, share: float) -> Recorded:
    runs = [f"run-{n}" for n in range(size // 20)]
    rows = {(f"run#{run}", "run"): {"pk": f"run#{run}", **RUN} for run in runs}
    return Recorded(hosts=_hosts(size, share=share), running={MACHINES[0]: runs}, table=rows)


def _hosts(size: int, *, share: float) -> dict[str, Host]:
    """Return hosts. Every second one is in a run of ten; the others are held by their job after its end."""
    made = {}
    for n in range(size):
        name = f"i-{n:017x}"
        tags = {
            Tag.YARD: "trainyard",
            Tag.RUN: f"run-{n // 20}" if n % 2 else f"over-{n // 20}",
            Tag.KIND: "train",
            Tag.ATTEMPT: "1",
            Tag.GANG: "1",
            Tag.AFTER: "stop",
            Tag.PRICE: "1.006000",
            Tag.LEASE: "2026-11-21T12:00:00.000Z",
            Tag.BUCKET: "trainyard-storage-bucket-0123456789",
            Tag.BUS: "trainyard",
            "Name": "a host of the bench",
        }
        made[name] = Host(name, tags=tags, share=lambda _: share)
    return made


@contextmanager
def _environment() -> Iterator[None]:
    """Set the environment variables of the function, as the stack does."""
    variables = {
        "YARD": "trainyard",
        "AWS_REGION": "us-east-1",
        "TABLE_NAME": "ledger",
        "BUCKET_NAME": "bucket",
        "TOPIC_ARN": "arn:aws:sns:us-east-1:1:notices",
        "SNAPSHOT_STATE_MACHINE_ARN": MACHINES[2],
        "STATE_MACHINE_ARNS": ",".join(MACHINES),
        "POLICY": "{}",
    }
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(asdict(one(int(sys.argv[1])))))
    else:
        for found in measure():
            print(found)
