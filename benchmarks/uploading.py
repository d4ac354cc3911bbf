"""How long `trainyard submit` takes to send small data files to a bucket as far away as a region of AWS (far.py).

`python -m benchmarks.uploading` prints the figures alone. Client and server share this machine's processors, so a busy
machine shows worse figures than a user has.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import boto3

from benchmarks.transfer import wait_for
from scripts.local_yard import ROOT, port_for
from trainyard.client import Session
from trainyard.client.bucket import Bucket
from trainyard.client.jobs import source, submission

LATENCY_SECONDS = 0.02
FILES, BYTES = 5000, 1000
ALONE = 250
"""Files that are sent one after another, as before; the time of all is a multiple of theirs."""


@dataclass(frozen=True)
class Uploaded:
    """`alone_seconds` is the time of all files one after another; `changed_bytes` is what leaves the computer when one
    of them has changed."""

    alone_seconds: float
    seconds: float
    processor_seconds: float
    changed_seconds: float
    changed_bytes: int

    @property
    def ratio(self) -> float:
        """Return how many times faster the files are sent than one after another."""
        return round(self.alone_seconds / self.seconds, 1)


def measure() -> Uploaded:
    """Send a folder, and again once a file has changed."""
    with tempfile.TemporaryDirectory() as made, _far() as endpoint:
        folder = Path(made)
        (folder / "data").mkdir()
        for number in range(FILES):
            (folder / "data" / f"{number:05d}.txt").write_bytes(f"{number}\n".encode() * (BYTES // 6))
        job = folder / "job.yaml"
        job.write_text("name: many\nprogram: {module: training.programs.digits}\ndata: {x: ./data}\n")
        boto = boto3.Session("a", "b", region_name="us-east-1")
        bucket = Bucket(Session(boto, endpoint), "yard")
        alone = _seconds(lambda: [bucket.put(f"alone/{number}", b"x" * BYTES) for number in range(ALONE)])
        used = time.process_time()
        seconds = _seconds(lambda: submission.send(bucket, source.read(job)))
        used = time.process_time() - used
        (folder / "data" / "00007.txt").write_bytes(b"another one")
        before = _received(endpoint)
        changed = _seconds(lambda: submission.send(bucket, source.read(job)))
        return Uploaded(alone / ALONE * FILES, seconds, used, changed, _received(endpoint) - before)


def _seconds(send: Callable[[], object]) -> float:
    begun = time.monotonic()
    send()
    return round(time.monotonic() - begun, 1)


def _received(endpoint: str) -> int:
    with urlopen(f"{endpoint}/counts", timeout=30) as answer:  # noqa: S310 - http on loopback
        return int(json.load(answer)["bytes"])


@contextmanager
def _far() -> Iterator[str]:
    port = port_for(0)
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.far", str(port), str(LATENCY_SECONDS)], cwd=ROOT
    )
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()


if __name__ == "__main__":
    found = measure()
    print(f"{FILES:,} files of {BYTES} bytes, each answer after {LATENCY_SECONDS * 1000:g} ms")
    print(f"  one after another {found.alone_seconds:6.1f} s")
    print(f"  as they are sent  {found.seconds:6.1f} s, {found.ratio} times as fast")
    print(f"  with one changed  {found.changed_seconds:6.1f} s, {found.changed_bytes:,} bytes sent")
