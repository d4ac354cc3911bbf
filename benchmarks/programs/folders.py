"""Measure in a process of its own what the agent spends on very many files: `python -m benchmarks.programs.folders`.

It prints processor seconds of a look at each kind of folder, and the peak memory with very many outputs, as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from training.host import account
from training.host.bucket import Bucket
from training.host.checkpoints import on_disk
from training.host.outputs.index import Index
from training.host.outputs.restore import Sources
from training.host.outputs.scan import scan
from training.host.outputs.upload import OutputsUpload

LOOKED_AT, OUTPUTS = 100_000, 200_000
FILES_A_FOLDER = 1_000


class Discarding:
    """An S3 client whose bucket takes every object and keeps none."""

    def put_object(self, **_: Any) -> dict[str, str]:
        return {"VersionId": "3HL4kqtJvjVBH40Nrjfkd"}

    def delete_objects(self, **_: Any) -> dict[str, Any]:
        return {}


def fill(folder: Path, files: int) -> None:
    """Make so many small files, as a program that writes one for each sample."""
    for number in range(files):
        if number % FILES_A_FOLDER == 0:
            (folder / f"part-{number // FILES_A_FOLDER:04d}").mkdir(parents=True)
        path = folder / f"part-{number // FILES_A_FOLDER:04d}" / f"sample-{number:07d}.npy"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


def processor_seconds(act: Any) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def peak_mb() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> int:
    importlib.import_module("training.host.agent.agent")  # its modules are part of the agent's memory
    root = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        fill(root, LOOKED_AT)
        looks = {
            "outputs_seconds": processor_seconds(lambda: scan(root, "runs/run-1/outputs/")),
            "checkpoints_seconds": processor_seconds(lambda: on_disk.listing_of(root)),
        }
        shutil.rmtree(root)
        fill(root, OUTPUTS)
        upload = OutputsUpload(
            Bucket(Discarding(), "bucket"),
            "run-1",
            "chief-0",
            root,
            account.own(),
            sources=Sources(),
            index=Index(),
            max_bytes=1 << 40,
            attempt=1,
            note=lambda _: None,
        )
        for last in (False, True):
            upload.update(last)
        kept = upload.index.count
    finally:
        shutil.rmtree(root)
    print(json.dumps({**looks, "kept": kept, "peak_mb": peak_mb()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
