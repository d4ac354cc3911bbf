"""Approve a move of an alias."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.models import Name, print_answer
from trainyard.cli.options import Options
from trainyard.protocol.ledger.models import DEFAULT


@command("trainyard models approve digits")
def approve(
    options: Options,
    name: Name,
    alias: Annotated[
        str, typer.Option("--alias", metavar="NAME", help="Alias whose move waits. Default: default.")
    ] = DEFAULT,
) -> None:
    """Approve the move of an alias that another user has requested."""
    print_answer(options, options.find().model(name).approve(alias=alias))
