"""What a cold start imports: each handler beside a bare `import boto3`, with nothing but its asset and its layer."""

import statistics
import subprocess
import sys
from pathlib import Path

PROCESSES = 7
PROGRAM = "import time; begun = time.perf_counter(); import {module}; print(time.perf_counter() - begun)"


def ratios(functions: Path, layer: Path) -> dict[str, float]:
    """Import time of each handler as a multiple of boto3's; medians over interleaved processes."""
    handlers = sorted(
        path.stem
        for path in (functions / "lambdas" / "handlers").glob("*.py")
        if "def handler(" in path.read_text()
    )
    seconds: dict[str, list[float]] = {name: [] for name in ("boto3", *handlers)}
    for _ in range(PROCESSES):
        for name in seconds:
            module = name if name == "boto3" else f"lambdas.handlers.{name}"
            seconds[name].append(_import(module, [functions, layer / "python"]))
    bare = statistics.median(seconds["boto3"])
    return {name: round(statistics.median(seconds[name]) / bare, 3) for name in handlers}


def _import(module: str, folders: list[Path]) -> float:
    """Seconds that a fresh interpreter without site-packages needs for the import."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM.format(module=module)],
        env={"PYTHONPATH": ":".join(map(str, folders)), "PATH": "/usr/bin:/bin", "AWS_REGION": "us-east-1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)
