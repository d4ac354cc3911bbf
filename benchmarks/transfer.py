"""How fast data reach a host's disk: this project's fetch beside `aws s3 sync` and `s5cmd`, in one run.

`python -m benchmarks.transfer` prints the table alone. All three are whole commands, their start included; ours also
compares every file with its MD5, which the others do not. The server is benchmarks/objects.py, on this machine: clients
and server share its cores, so the figures compare clients and are no forecast for a network.
"""

from __future__ import annotations

import os
import resource
import secrets
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.local_yard import ROOT, client_environment, port_for

FOLDER = ROOT / "build" / "bench-transfer"
BUCKET = "bench-bucket"
ROUNDS = 3
SETS = {"small": (2000, 64 * 1024), "large": (4, 256 * 1024 * 1024)}
"""Name: how many files, bytes of each."""
OURS = """
import os, sys
from pathlib import Path
import boto3
from training.host.bucket import Bucket
from training.host.data.fetch import fetch_whole
from training.host.places import Places
bucket = Bucket(boto3.client("s3"), sys.argv[1])
data = {"bench": {"source": f"s3://{bucket.name}/{sys.argv[2]}", "sharding": "none"}}
fetch_whole(bucket, {"data": data}, Places(Path(sys.argv[3])))
"""


@dataclass(frozen=True)
class Speed:
    """Medians of the rounds. `processor_seconds` holds on a busy machine too."""

    megabytes_a_second: int
    processor_seconds: float


@dataclass(frozen=True)
class Speeds:
    """One set of files."""

    ours: Speed
    aws_s3_sync: Speed
    s5cmd: Speed

    @property
    def ratio(self) -> float:
        """Our speed as a multiple of that of `aws s3 sync`."""
        return round(self.ours.megabytes_a_second / self.aws_s3_sync.megabytes_a_second, 2)


def measure() -> dict[str, Speeds]:
    """Make the files, serve them, and fetch each set with every tool in alternating order."""
    try:
        with _serving(_files()) as endpoint:
            return {name: _speeds(name, endpoint) for name in SETS}
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)


def _files() -> Path:
    root = FOLDER / "served"
    for name, (count, size) in SETS.items():
        folder = root / BUCKET / "data" / name
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (folder / f"{number:05d}.rec").write_bytes(secrets.token_bytes(size))
    return root


@contextmanager
def _serving(root: Path) -> Iterator[str]:
    port = port_for(0)
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.objects", str(root), str(port)], cwd=ROOT, start_new_session=True
    )
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def wait_for(port: int) -> None:
    """Until the server has summed its files and listens."""
    ends = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.1)


def _speeds(name: str, endpoint: str) -> Speeds:
    tools = ["ours", "aws_s3_sync", "s5cmd"]
    measured: dict[str, list[Speed]] = {tool: [] for tool in tools}
    for round_ in range(ROUNDS):
        for tool in tools if round_ % 2 == 0 else reversed(tools):
            measured[tool].append(_fetch(tool, name, endpoint))
    return Speeds(**{tool: _median(rounds) for tool, rounds in measured.items()})


def _median(rounds: list[Speed]) -> Speed:
    return Speed(
        round(statistics.median(one.megabytes_a_second for one in rounds)),
        round(statistics.median(one.processor_seconds for one in rounds), 1),
    )


def _fetch(tool: str, name: str, endpoint: str) -> Speed:
    target = FOLDER / "fetched"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    command = _command(tool, f"data/{name}/", target)
    used, begun = _children_used(), time.monotonic()
    subprocess.run(command, cwd=ROOT, env=_environment(endpoint), check=True, capture_output=True)
    seconds, used = time.monotonic() - begun, _children_used() - used
    size = sum(path.stat().st_size for path in target.rglob("*.rec"))
    count, each = SETS[name]
    assert size == count * each, f"{tool} brought {size} bytes"
    return Speed(round(size / 1e6 / seconds), used)


def _children_used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _command(tool: str, prefix: str, target: Path) -> list[str]:
    match tool:
        case "ours":
            return [sys.executable, "-c", OURS, BUCKET, prefix, str(target)]
        case "aws_s3_sync":
            return ["aws", "s3", "sync", f"s3://{BUCKET}/{prefix}", str(target), "--only-show-errors"]
        case _:
            return ["s5cmd", "--log", "error", "sync", f"s3://{BUCKET}/{prefix}*", f"{target}/"]


def _environment(endpoint: str) -> dict[str, str]:
    return client_environment(
        {
            "AWS_ENDPOINT_URL": endpoint,
            "S3_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    )


if __name__ == "__main__":
    for name, speeds in measure().items():
        count, size = SETS[name]
        print(f"{count} files of {size // 1024} KiB (ours / aws s3 sync: {speeds.ratio})")
        for tool, speed in vars(speeds).items():
            print(f"  {tool:12} {speed.megabytes_a_second:5} MB/s {speed.processor_seconds:5} s of processor")
