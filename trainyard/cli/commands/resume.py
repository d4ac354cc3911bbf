"""Continue a run from its last checkpoint or outputs."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.arguments import Changes, Detach, NoLogs, Run
from trainyard.cli.command import command
from trainyard.cli.commands.rerun import start_again
from trainyard.cli.options import Options


@command("trainyard resume digits-1a2b3c4d", "trainyard resume @last --set limits.hours=12")
def resume(
    options: Options,
    run: Run,
    changes: Changes = None,
    force: Annotated[bool, typer.Option("--force", help="Resume a run that has finished.")] = False,
    detach: Detach = False,
    no_logs: NoLogs = False,
) -> None:
    """Continue a run from its last checkpoint or outputs.

    This is a new run of the same job, changed by --set. A run that has not ended is refused, and so is a finished run
    unless --set changes its arguments.
    """
    start_again(options, run, changes, resumes=True, force=force, detach=detach, logs=not no_logs)
