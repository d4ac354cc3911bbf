"""A clone of Trainyard on this computer: it deploys yards and runs the local cloud.

A wheel of Trainyard carries these sources. If the user has no clone, they are unpacked into a folder of the user.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import trainyard

if TYPE_CHECKING:
    from trainyard.cli.options import Options

SOURCES = "sources"
"""The folder of the package with what a clone has beside it. Only a wheel has this folder."""
UNPACKED = ".unpacked"
"""The file in a folder of unpacked sources that names their build."""
MARKS = ("cdk.json", "scripts/deploy", "localcloud")
PYTHON = ".venv/bin/python"
ENVIRONMENT = ".venv/.ready"
"""The target of the Makefile that creates the environment."""


def find() -> Path:
    """Return the clone that contains the current folder, else the one that this package belongs to, else the sources
    that came with the package. Raise NotHere if the package has no sources."""
    from trainyard.client.errors import NotHere

    here, package = Path.cwd(), Path(trainyard.__file__).resolve().parent
    for folder in (here, *here.parents, package.parent):
        if all((folder / mark).exists() for mark in MARKS):
            return folder
    if (package / SOURCES).is_dir():
        return _unpack(package)
    raise NotHere(
        "a clone of Trainyard was not found",
        "the sources that deploy a yard and run the local cloud are missing in this installation",
        "pip install --force-reinstall trainyard",
    )


def _unpack(package: Path) -> Path:
    """Return `$XDG_DATA_HOME/trainyard/<version>` with the package's sources. A new build of the version replaces the
    sources there, and keeps the environments that were made from the old ones."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "trainyard"
    folder = data / trainyard.__version__
    folder.mkdir(parents=True, exist_ok=True)
    build = hashlib.sha256((distribution("trainyard").read_text("RECORD") or "").encode()).hexdigest()
    with (data / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / UNPACKED
        if not stamp.exists() or stamp.read_text() != build:
            sources = {each.name: each for each in (package / SOURCES).iterdir()} | {"trainyard": package}
            for name, source in sources.items():
                _replace(source, folder / name)
            stamp.write_text(build)
    return folder


def _replace(source: Path, target: Path) -> None:
    if source.is_file():
        shutil.copy2(source, target)
        return
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(SOURCES, "__pycache__"))


def version() -> str:
    text = (find() / "trainyard" / "__init__.py").read_text()
    return text.partition('__version__ = "')[2].partition('"')[0]


def make(options: Options, *words: str) -> None:
    """Run `make` in the clone with the profile and region of the options. Raises Exit if make fails."""
    run(["make", "-C", str(find()), "--no-print-directory", *words], options)


def module(options: Options, *words: str) -> None:
    """Run `python -m` in the clone's environment, in the current folder. Raises NotHere."""
    from trainyard.client.errors import NotHere

    root = find()
    if not (root / PYTHON).exists():
        if not (root / UNPACKED).exists():
            raise NotHere(
                f"{root} is not set up", "it has no Python environment yet", f"make -C {root} setup"
            )
        make(options, "setup")
    run([str(root / PYTHON), "-m", *words], options, PYTHONPATH=str(root))


def localcloud(options: Options, *words: str, state: Path | None) -> None:
    """Run a command of the local cloud in the folder `state`; by default, in .localcloud of the clone."""
    module(options, "localcloud", *words, "--state", str(state or find() / ".localcloud"))


def run(command: Sequence[str], options: Options, **more: str) -> None:
    chosen = {"AWS_PROFILE": options.profile, "AWS_REGION": options.region}
    environment = os.environ | {name: value for name, value in chosen.items() if value} | more
    done = subprocess.run(command, env=environment, check=False)
    if done.returncode:
        raise typer.Exit(done.returncode)


def port_for(wanted: int) -> int:
    """Return `wanted` if that port of 127.0.0.1 is free, else another free port. Raises NotHere."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    from trainyard.client.errors import NotHere

    raise NotHere(
        "127.0.0.1 has no free port", "the server cannot start", "stop a program that listens there"
    )
