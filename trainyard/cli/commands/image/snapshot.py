"""Make an image of a host in its current state."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from trainyard.cli.arguments import Detach
from trainyard.cli.command import command
from trainyard.cli.completion import complete_hosts
from trainyard.cli.options import Options


class Then(StrEnum):
    """The fate of the host after the snapshot."""

    KEEP = "keep"
    STOP = "stop"
    TERMINATE = "terminate"


@command("trainyard image snapshot digits", "trainyard image snapshot i-0123456789abcdef0")
def snapshot(
    options: Options,
    what: Annotated[
        str,
        typer.Argument(metavar="RUN|HOST", help="Run (its chief) or host.", autocompletion=complete_hosts),
    ],
    name: Annotated[str | None, typer.Option("--name", help="Family of the image.")] = None,
    then: Annotated[
        Then,
        typer.Option(metavar="WORD", help="Keep, stop or terminate the host afterwards."),
    ] = Then.KEEP,
    detach: Detach = False,
) -> None:
    """Make an image of a host in its current state.

    The image includes its files. A running program pauses meanwhile.
    """
    from trainyard.cli import following, runs

    yard = options.find()
    which = {"instance": what} if what.startswith("i-") else {"run": runs.find(yard, what).id}
    asked: dict[str, Any] = {**which, "then": then, **({"name": name} if name else {})}
    following.workflow(options, yard.start("snapshot", asked), detach=detach)
