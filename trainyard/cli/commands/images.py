"""The yard's images: bake one, list them, go back to the one before, freeze a host, delete some."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from trainyard.cli.command import command, group
from trainyard.cli.completion import complete_hosts
from trainyard.cli.options import Options


class Then(StrEnum):
    """What becomes of a host whose image is made."""

    KEEP = "keep"
    STOP = "stop"
    TERMINATE = "terminate"


Detach = Annotated[bool, typer.Option("--detach", "-d", help="Return once it has begun.")]


def register(app: typer.Typer) -> None:
    images = group("The yard's images: bake, list, go back, freeze a host, delete.")
    app.add_typer(images, name="image")
    command(images, "bake", "trainyard image bake", "trainyard image bake images/mine.yaml")(bake)
    command(images, "ls", "trainyard image ls")(ls)
    command(images, "rollback", "trainyard image rollback")(rollback)
    command(
        images,
        "snapshot",
        "trainyard image snapshot digits",
        "trainyard image snapshot i-0123456789abcdef0",
    )(snapshot)
    command(images, "rm", "trainyard image rm ami-0123456789abcdef0")(rm)


def bake(
    options: Options,
    recipe: Annotated[
        Path | None, typer.Argument(readable=False, help="A recipe; without one the yard's own.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Though nothing has changed.")] = False,
    detach: Detach = False,
) -> None:
    """Make a new image, the current one if it passes.

    Does nothing where nothing has changed. A bake that the deployment has begun is followed.
    """
    from trainyard.cli import following

    yard = options.find()
    if recipe and force:
        raise typer.BadParameter("--force is for the yard's own recipe; a changed one is baked anyway")
    if recipe:
        begun = yard.bake(recipe)
    else:
        begun = (None if force else yard.baking) or yard.start("bake", {"force": True} if force else {})
    following.workflow(options, begun, detach=detach)


def rollback(options: Options) -> None:
    """Go back to the image before the current one."""
    from trainyard.cli import following

    following.workflow(options, options.find().start("bake", {"rollback": True}))


def snapshot(
    options: Options,
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|HOST", help="A run (its chief) or a host.", autocompletion=complete_hosts
        ),
    ],
    name: Annotated[str | None, typer.Option("--name", help="The family of the image.")] = None,
    then: Annotated[
        Then, typer.Option(metavar="WORD", help="keep, stop or terminate the host then.")
    ] = Then.KEEP,
    detach: Detach = False,
) -> None:
    """Make an image of a host as it is.

    With its files; a program that runs there pauses for it.
    """
    from trainyard.cli import following, runs

    yard = options.find()
    which = {"instance": what} if what.startswith("i-") else {"run": runs.find(yard, what).id}
    asked: dict[str, Any] = {**which, "then": then, **({"name": name} if name else {})}
    following.workflow(options, yard.start("snapshot", asked), detach=detach)


def ls(options: Options) -> None:
    """List the images, newest first."""
    from dataclasses import asdict

    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column
    from trainyard.client.inventory import images
    from trainyard.core.values.quantities import span

    found = images.of(options.find())
    if options.is_json:
        terminal.answer([asdict(image) for image in found])
        return
    columns = (
        Column("IMAGE"),
        Column("IS"),
        Column("FAMILY", 1),
        Column("AGE", 2, right=True),
        Column("GIB", 4, right=True),
        Column("TENSORFLOW", 3),
        Column("DRIVER", 5),
        Column("TESTS", 6),
        Column("NAME", 7),
    )
    rows = [
        (
            image.id,
            image.standing or image.state,
            image.family,
            span(image.age),
            f"{image.gib:.0f}",
            image.tensorflow,
            image.driver,
            image.tests,
            image.name,
        )
        for image in found
    ]
    terminal.table(columns, rows, ["bold" if image.standing == "current" else "" for image in found])


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
