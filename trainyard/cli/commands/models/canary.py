"""Try a version with a share of the requests."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.models import Name, print_answer
from trainyard.cli.options import Options
from trainyard.command_line import command_line


@command(
    "trainyard models canary digits --to v4 --percent 5 --minutes 60",
    "trainyard models canary digits --to v4 --shadow --percent 20",
    "trainyard models canary digits --stop",
)
def canary(
    options: Options,
    name: Name,
    to: Annotated[
        str, typer.Option("--to", metavar="VERSION", help="Label or number of the version to try.")
    ] = "",
    percent: Annotated[
        int, typer.Option("--percent", metavar="NUMBER", help="Share of the requests, 1 to 100.")
    ] = 5,
    minutes: Annotated[
        int, typer.Option("--minutes", metavar="NUMBER", help="Duration, at most 7 days.")
    ] = 60,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Only count the answers of the version, and send none of them.")
    ] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="End the canary, or with --shadow the shadow.")
    ] = False,
) -> None:
    """Try a version with a share of the requests to the default version.

    Patrol compares both versions each minute. It ends the canary if the version fails more requests (by 1 point) or
    takes twice as long, and makes it the default when the time has passed. Equal requests get equal versions.
    """
    if stop == bool(to):
        raise typer.BadParameter("give --to VERSION to start a canary, or --stop to end it")
    model = options.find().model(name)
    if stop:
        print_answer(options, model.end_canary(shadow=shadow))
        return
    answer = model.canary(to, percent=percent, minutes=minutes, shadow=shadow)
    print_answer(options, answer, f"Next: {command_line('models', 'show', name)}")
