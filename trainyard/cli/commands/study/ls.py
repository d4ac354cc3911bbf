"""List studies."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.cli.runs import MOST
from trainyard.command_line import command_line

USUAL = 25


@command("trainyard study ls", "trainyard study ls -n 100 -o json")
def ls(
    options: Options,
    number: Annotated[int, typer.Option("-n", help="Maximum number of rows.", min=1, max=MOST)] = USUAL,
) -> None:
    """List the newest studies, a line each: progress, best value, and cost."""
    from dataclasses import asdict

    from trainyard.cli.commands import ls as runs
    from trainyard.cli.output import study, terminal

    now = datetime.now(UTC)
    found = options.find().list(kind="study", limit=number)
    if options.is_json:
        terminal.answer([asdict(each) for each in found])
        return
    rows = [study.list_row(each, now) for each in found]
    terminal.table(study.list_columns(), rows, [runs.style(each) for each in found])
    if not found and not options.quiet:
        terminal.hint(
            f"No studies. Next: {command_line('submit', 'JOB')}, with a section study in the job file"
        )
