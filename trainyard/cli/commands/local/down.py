"""Stop the local cloud."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli import clone
from trainyard.cli.arguments import CloudState
from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard local down", "trainyard local down --forget")
def down(
    options: Options,
    state: CloudState = None,
    forget: Annotated[bool, typer.Option("--forget", help="Also delete everything in it.")] = False,
) -> None:
    """Stop the local cloud. The next `up` continues with everything in it."""
    clone.localcloud(options, "down", *(["--forget"] if forget else []), state=state)
