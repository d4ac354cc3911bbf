"""Delete images and their snapshots for good."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard image rm ami-0123456789abcdef0")
def rm(
    options: Options,
    ids: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Their ids, as image ls has them.")],
) -> None:
    """Delete images and their snapshots for good.

    All of them, or none if one is current or previous, or if a host or a run needs it.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.inventory import images

    said = images.remove(options.find(), ids)
    if options.is_json:
        terminal.answer({"deleted": ids})
    else:
        terminal.console.print(said, markup=False)
