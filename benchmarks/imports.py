"""Import time of each handler at a cold start, with only its asset and its layer, compared with `import boto3`."""

import subprocess
import sys
from pathlib import Path

from stacks.constructs import packages

PROCESSES = 20
PROGRAM = "import time; begun = time.process_time(); import {module}; print(time.process_time() - begun)"
"""Measures processor time, so that other load on the machine does not count."""


def ratios() -> dict[str, float]:
    """Return the import time of each handler as a multiple of boto3's.

    Each is the minimum of interleaved processes, because other load can only add time.
    """
    functions, layer = packages.functions_folder(), packages.layer_folder()
    entry_points = functions / "lambdas" / "workflows"
    handlers = sorted(
        ".".join(path.relative_to(entry_points).with_suffix("").parts).removesuffix(".__init__")
        for path in entry_points.rglob("*.py")
        if "def handler(" in path.read_text()
    )
    seconds: dict[str, list[float]] = {name: [] for name in ("boto3", *handlers)}
    for round_ in range(1 + PROCESSES):
        for name in seconds:
            module = name if name == "boto3" else f"lambdas.workflows.{name}"
            took = _import(module, [functions, layer / "python"])
            if round_:  # the first import compiles
                seconds[name].append(took)
    bare = min(seconds["boto3"])
    return {name: round(min(seconds[name]) / bare, 3) for name in handlers}


def _import(module: str, folders: list[Path]) -> float:
    """Return the seconds of the import in a fresh interpreter without site-packages."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM.format(module=module)],
        env={"PYTHONPATH": ":".join(map(str, folders)), "PATH": "/usr/bin:/bin", "AWS_REGION": "us-east-1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)
