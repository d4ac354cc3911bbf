"""Make an image of a host as it is."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from trainyard.cli.arguments import Detach
from trainyard.cli.command import command
from trainyard.cli.completion import complete_hosts
from trainyard.cli.options import Options


class Then(StrEnum):
    """What becomes of a host whose image is made."""

    KEEP = "keep"
    STOP = "stop"
    TERMINATE = "terminate"


@command("trainyard image snapshot digits", "trainyard image snapshot i-0123456789abcdef0")
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
