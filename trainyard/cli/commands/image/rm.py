"""Delete images and their snapshots permanently."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard image rm ami-0123456789abcdef0")
def rm(
    options: Options,
    ids: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Image IDs, as in `image ls`.")],
) -> None:
    """Delete images and their snapshots permanently.

    Deletes all of them or none: none if one is the current or previous image, or in use by a host or run.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.inventory import images

    said = images.remove(options.find(), ids)
    if options.is_json:
        terminal.answer({"deleted": ids})
    else:
        terminal.console.print(said, markup=False)
