"""Add a point to a study."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.arguments import StudyId, parse_changes
from trainyard.cli.command import command
from trainyard.cli.options import Options


@command(
    "trainyard study add digits args.lr=0.01", "trainyard study add @last args.lr=0.01 args.optimizer=sgd"
)
def add(
    options: Options,
    study: StudyId,
    values: Annotated[
        list[str],
        typer.Argument(metavar="PATH=VALUE...", help="Values of parameters, by the paths of the job file."),
    ],
) -> None:
    """Add a point to a study, which the next free trial takes.

    The sampler draws the parameters that the point leaves out. Only the owner of the study and operators may add
    points.
    """
    from trainyard.cli import runs
    from trainyard.cli.output import terminal
    from trainyard.command_line import command_line

    found = runs.find_study(options.find(), study)
    point = found.add(parse_changes(values, "PATH=VALUE"))
    if options.is_json:
        terminal.answer({"study": found.id, "point": point})
    elif not options.quiet:
        terminal.console.print(f"{found.id} takes the point in its next free trial.", markup=False)
        terminal.hint(f"Next: {command_line('show', found.id, '--watch')}")
