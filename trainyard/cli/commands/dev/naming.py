"""A dev host as it is named on the command line."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from trainyard.cli.completion import complete_dev_hosts
from trainyard.core.model import dev


def checked(name: str) -> str:
    """Raises BadParameter for what no dev host can be called."""
    if not re.fullmatch(dev.NAME, name):
        raise typer.BadParameter(f"a dev host has {dev.A_NAME}, not {name!r}")
    return name


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Of the dev host.", autocompletion=complete_dev_hosts, callback=checked
    ),
]
