"""The clone of Trainyard on this computer. Only a clone can deploy a yard and run the local cloud."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import trainyard

if TYPE_CHECKING:
    from trainyard.cli.options import Options

MARKS = ("cdk.json", "scripts/deploy", "localcloud")
PYTHON = ".venv/bin/python"
ENVIRONMENT = ".venv/.ready"
"""The target of the Makefile that creates the environment."""


def find() -> Path:
    """Return the clone around the current folder, else the clone of this package. Raises NotHere."""
    from trainyard.client.errors import NotHere

    here = Path.cwd()
    for folder in (here, *here.parents, Path(trainyard.__file__).resolve().parents[1]):
        if all((folder / mark).exists() for mark in MARKS):
            return folder
    raise NotHere(
        "no clone of Trainyard was found here",
        "the package contains neither the deployment of a yard nor the local cloud; the repository does",
        "clone the repository, cd into it, and repeat the command",
    )


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
        raise NotHere(f"{root} is not set up", "its Python environment is missing", f"make -C {root} setup")
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
