"""Train a model on this machine, from nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.options import Options

Job = Annotated[
    Path | None,
    typer.Argument(metavar="JOB", readable=False, help="Job file. Default: digits on two hosts."),
]


@command("trainyard demo", "trainyard demo examples/mnist-single.yaml --keep")
def demo(
    options: Options,
    job: Job = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the local cloud running.")] = False,
) -> None:
    """Train a model on this machine, from nothing.

    Start the local cloud, deploy a yard, bake an image, train, and show the result.
    """
    from trainyard.cli import clone

    words = [f"JOB={job.resolve()}"] if job else []
    clone.make(options, "demo", *words, *(["KEEP=1"] if keep else []))
