"""Bake a new image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainyard.cli.arguments import Detach
from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard image bake", "trainyard image bake images/mine.yaml")
def bake(
    options: Options,
    recipe: Annotated[
        Path | None, typer.Argument(readable=False, help="Recipe. Default: the recipe of the yard.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Bake even if nothing has changed.")] = False,
    detach: Detach = False,
) -> None:
    """Bake a new image, which becomes the current one if its tests pass.

    Does nothing if nothing has changed. Follows a bake that the deployment has started.
    """
    from trainyard.cli import following

    yard = options.find()
    if recipe and force:
        raise typer.BadParameter("--force applies to the yard's own recipe; another recipe is always baked")
    if recipe:
        begun = yard.bake(recipe)
    else:
        begun = (None if force else yard.baking) or yard.start("bake", {"force": True} if force else {})
    following.workflow(options, begun, detach=detach)
