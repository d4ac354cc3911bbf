"""Create a job: write a job file, a program and data."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.command_line import command_line


class Example(StrEnum):
    """An example to begin with."""

    LINE = "line"
    DIGITS = "digits"


@command("trainyard init", "trainyard init mine --example digits")
def init(
    options: Options,
    folder: Annotated[Path, typer.Argument(help="Folder to write into.", readable=False)] = Path(),
    example: Annotated[Example, typer.Option(help="Example to write.")] = Example.LINE,
) -> None:
    """Create a job: write a job file, a program and data."""
    from trainyard.cli import examples
    from trainyard.cli.output import terminal

    written = examples.write(example, folder)
    if options.is_json:
        terminal.answer({"files": [str(each) for each in written]})
        return
    for each in written:
        terminal.console.print(str(each), markup=False)
    if not options.quiet:
        terminal.hint(f"Next: {command_line('check', written[0])}")
