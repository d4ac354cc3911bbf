"""Inject a fault into the local cloud."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli import clone
from trainyard.cli.arguments import CloudState
from trainyard.cli.command import command
from trainyard.cli.options import Options

Words = Annotated[
    list[str], typer.Argument(metavar="FAULT...", help="interrupt, refuse, throttle, kill, ...")
]


@command(
    "trainyard local fault interrupt i-0123456789abcdef0",
    "trainyard local fault list",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def fault(options: Options, words: Words, state: CloudState = None) -> None:
    """Inject a fault into the local cloud (`trainyard local fault help` lists them)."""
    if words == ["help"]:
        clone.module(options, "localcloud", "fault", "--help")
    else:
        clone.localcloud(options, "fault", *words, state=state)
