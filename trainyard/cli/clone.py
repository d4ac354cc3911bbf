"""A clone of Trainyard on this computer: what deploys a yard and runs the local cloud is there alone."""

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
"""The target of the Makefile that makes it."""


def find() -> Path:
    """The one that one stands in, else the one that this package is of. Raises NotHere."""
    from trainyard.client.errors import NotHere

    here = Path.cwd()
    for folder in (here, *here.parents, Path(trainyard.__file__).resolve().parents[1]):
        if all((folder / mark).exists() for mark in MARKS):
            return folder
    raise NotHere(
        "there is no clone of Trainyard here",
        "what deploys a yard, and the local cloud, are in its repository, not in the package",
        "clone it, cd into it, and type the same again",
    )


def version() -> str:
    """Of the clone."""
    text = (find() / "trainyard" / "__init__.py").read_text()
    return text.partition('__version__ = "')[2].partition('"')[0]


def make(options: Options, *words: str) -> None:
    """`make` in the clone, with the profile and region that are meant. Ends the command with its exit code unless that
    is 0."""
    run(["make", "-C", str(find()), "--no-print-directory", *words], options)


def module(options: Options, *words: str) -> None:
    """`python -m` in the clone's environment, in this folder."""
    from trainyard.client.errors import NotHere

    root = find()
    if not (root / PYTHON).exists():
        raise NotHere(f"{root} is not set up", "it has no Python environment yet", f"make -C {root} setup")
    run([str(root / PYTHON), "-m", *words], options, PYTHONPATH=str(root))


def localcloud(options: Options, *words: str, state: Path | None) -> None:
    """Run a command of the local cloud of this folder; without one, of the clone's."""
    module(options, "localcloud", *words, "--state", str(state or find() / ".localcloud"))


def run(command: Sequence[str], options: Options, **more: str) -> None:
    said = {"AWS_PROFILE": options.profile, "AWS_REGION": options.region}
    environment = os.environ | {name: value for name, value in said.items() if value} | more
    done = subprocess.run(command, env=environment, check=False)
    if done.returncode:
        raise typer.Exit(done.returncode)


def port_for(wanted: int) -> int:
    """`wanted` if nobody listens there on 127.0.0.1, else a free port. Raises NotHere where all are taken."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    from trainyard.client.errors import NotHere

    raise NotHere("no free port on 127.0.0.1", "all are taken", "stop something that listens there")
