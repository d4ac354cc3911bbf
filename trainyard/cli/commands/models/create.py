"""Create a model."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.models import Name, print_answer
from trainyard.cli.options import Options
from trainyard.command_line import command_line


@command("trainyard models create digits", "trainyard models create digits --approval 1")
def create(
    options: Options,
    name: Name,
    approval: Annotated[
        int,
        typer.Option(
            "--approval", metavar="NUMBER", help="1: another user must approve each move of an alias."
        ),
    ] = 0,
) -> None:
    """Create a model without versions. It belongs to you: only you and operators move its aliases."""
    answer = options.find().model(name).create(approval=approval)
    following = command_line("versions", "create", "v1", "--model", name, "--origin", "@last")
    print_answer(options, answer, f"Next: {following}")
