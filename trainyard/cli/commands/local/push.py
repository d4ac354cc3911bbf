"""Push a container image to the local cloud."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli import clone
from trainyard.cli.arguments import CloudState
from trainyard.cli.command import command
from trainyard.cli.options import Options

Words = Annotated[
    list[str], typer.Argument(metavar="WORD...", help="IMAGE, FOLDER of each layer, and options.")
]


@command(
    "trainyard local push team/train:v1 ./rootfs",
    "trainyard local push nvcr.io/team/train:v1 ./rootfs --user 1000 --cmd 'python train.py'",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def push(options: Options, words: Words, state: CloudState = None) -> None:
    """Make a container image from folders and push it to the local cloud (`trainyard local push help`)."""
    if words == ["help"]:
        clone.module(options, "localcloud", "push", "--help")
    else:
        clone.localcloud(options, "push", *words, state=state)
