"""Import time of each handler at a cold start, with only its asset and its layer, compared with `import boto3`."""

import re
import subprocess
import sys
from pathlib import Path

from lambdas.needs import Compiled
from localcloud.machine.python import functions_platform
from stacks.constructs import packages
from stacks.constructs.packages import ROOT, layers

PROCESSES = 20
CORES: dict[Compiled, str] = {
    "study": "lambdas.core.study.sampling",
    "predict": "trainyard.core.prediction.lite, ai_edge_litert.interpreter",
}
"""The modules that import the packages of each compiled layer."""
PROGRAM = "import time; begun = time.process_time(); import {module}; print(time.process_time() - begun)"
"""Measures processor time, so that other load on the machine does not count."""


def ratios() -> dict[str, float]:
    """Return the import time of each handler as a multiple of boto3's."""
    return _ratios(_handlers(), [layers.layer_folder()])


def compiled_ratios() -> dict[str, float]:
    """Return the import time of each handler with a compiled layer, and of the core that uses it, as a multiple of
    boto3's. The layer is for this machine's platform."""
    found: dict[str, float] = {}
    for which, core in CORES.items():
        both = [layers.layer_folder(), layers.compiled_layer_folder(which, functions_platform())]
        found |= _ratios([f"boto3, {core}", *_handlers(compiled=which)], both)
    return found


def _handlers(*, compiled: Compiled | None = None) -> list[str]:
    """Return the modules with a handler that has this compiled layer, or none."""
    entry_points = ROOT / "lambdas" / "workflows"
    sources = {path: path.read_text() for path in entry_points.rglob("*.py")}
    return sorted(
        "lambdas.workflows."
        + ".".join(path.relative_to(entry_points).with_suffix("").parts).removesuffix(".__init__")
        for path, source in sources.items()
        if "def handler(" in source and _compiled_in(source) == compiled
    )


def _compiled_in(source: str) -> str | None:
    """Return the compiled layer that a handler declares in its needs."""
    found = re.search(r'compiled="(\w+)"', source)
    return found[1] if found else None


def _ratios(modules: list[str], of_layers: list[Path]) -> dict[str, float]:
    """Return the import times of modules as multiples of boto3's. Each is the minimum of interleaved processes, because
    other load can only add time."""
    folders = [packages.functions_folder(), *(layer / "python" for layer in of_layers)]
    seconds: dict[str, list[float]] = {name: [] for name in ("boto3", *modules)}
    for round_ in range(1 + PROCESSES):
        for name in seconds:
            took = _import(name, folders)
            if round_:  # the first import compiles
                seconds[name].append(took)
    bare = min(seconds["boto3"])
    return {name.removeprefix("lambdas."): round(min(seconds[name]) / bare, 3) for name in modules}


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
