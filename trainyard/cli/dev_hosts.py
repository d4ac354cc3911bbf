"""Argument types and texts that the commands for dev hosts share."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.completion import complete_dev_hosts
from trainyard.cli.options import Options
from trainyard.core.model import dev

if TYPE_CHECKING:
    from trainyard.client.dev.requests import OnStep


def check_name(name: str) -> str:
    """Return the name. Raises BadParameter if a dev host cannot have it."""
    if not re.fullmatch(dev.NAME, name):
        raise typer.BadParameter(f"the name of a dev host is {dev.A_NAME}, not {name!r}")
    return name


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of the dev host.", autocompletion=complete_dev_hosts, callback=check_name
    ),
]


def monthly(amount: float | None) -> str:
    return "an unknown amount a month" if amount is None else f"${amount:,.2f} a month"


def step_printer(options: Options) -> OnStep:
    """Return a function that prints a step, with the seconds since the command began."""
    from trainyard.cli.output import terminal

    begun = time.monotonic()

    def on_step(step: str) -> None:
        if not options.quiet:
            terminal.note(f"{time.monotonic() - begun:4.0f} s  {step}")

    return on_step
