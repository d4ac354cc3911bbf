"""The assembly of the yard (`cdk synth`), in build/simulation/. It is synthesised again after a source changes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "simulation"
ZONES = "us-east-1a,us-east-1b,us-east-1c"
SOURCES = (
    "app.py",
    "cdk.json",
    "stacks",
    "lambdas",
    "training",
    "trainyard",
    "examples/images",
    "requirements",
)
"""The sources of an assembly."""
MOST_ASSEMBLIES = 3
"""The number of assemblies to keep, for switching between branches."""


class NotSynthesisedError(Exception):
    """app.py failed. The message is what it printed."""


def is_made() -> bool:
    """Return True if the assembly of these sources exists already."""
    return (_folder() / "manifest.json").exists()


def find_assembly() -> Path:
    """Return the folder of the assembly. Synthesise it first if it is missing. Raises NotSynthesisedError."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = _folder()
        if not (folder / "manifest.json").exists():
            _synthesise(folder)
            _forget_old(folder)
        return folder


def _folder() -> Path:
    return BUILD / f"assembly-{_fingerprint()}"


def _fingerprint() -> str:
    """Return the hash of the name and content of every source."""
    digest = hashlib.sha256()
    for path in _files():
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _files() -> Iterator[Path]:
    for source in SOURCES:
        path = ROOT / source
        inside = sorted(each for each in path.rglob("*") if each.is_file() and each.suffix != ".pyc")
        yield from inside if path.is_dir() else [path]


def _synthesise(folder: Path) -> None:
    making = folder.with_name(f"{folder.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "CDK_OUTDIR": str(making),
        "CDK_VALIDATION": "false",  # it only warns, and tests/infrastructure runs it
        "CDK_CONTEXT_JSON": json.dumps(
            json.loads((ROOT / "cdk.json").read_text())["context"] | {"zones": ZONES}
        ),
    }
    done = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotSynthesisedError(f"{done.stdout}\n{done.stderr}".strip())
    for asset in making.glob(
        "asset.*"
    ):  # code and layers, 40 MB: worlds call the functions of this clone instead
        shutil.rmtree(asset) if asset.is_dir() else asset.unlink()
    making.rename(folder)


def _forget_old(newest: Path) -> None:
    others = [path for path in BUILD.glob("assembly-*") if path != newest]
    for path in sorted(others, key=lambda path: path.stat().st_mtime)[: -(MOST_ASSEMBLIES - 1)]:
        shutil.rmtree(path)
