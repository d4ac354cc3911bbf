"""Show the output of a run's programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.arguments import Run
from trainyard.cli.command import command
from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.client import Run as ARun


@command(
    "trainyard logs @last -f",
    "trainyard logs digits --role worker:1 --attempt 2",
    "trainyard logs digits --find error",
)
def logs(
    options: Options,
    run: Run,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the log until the run ends.")
    ] = False,
    role: Annotated[
        str | None,
        typer.Option("--role", metavar="ROLE[:N]", help="Show only these hosts: worker, worker:1, chief."),
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", metavar="N", min=1, help="Attempt to show. Default: the last one."),
    ] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", metavar="N", min=1, help="Show only the last N lines.")
    ] = None,
    find: Annotated[
        str | None,
        typer.Option("--find", metavar="TEXT", help="Show only lines with this text, of all attempts."),
    ] = None,
) -> None:
    """Show the output of a run's programs.

    Lines of all hosts are in the order of time. -f continues with later attempts until the run ends.
    """
    if find is not None and (follow or tail):
        raise typer.BadParameter("--find reads whole logs: leave out --follow and --tail, or --find")
    from trainyard.cli import following, runs
    from trainyard.cli.output import terminal

    found = runs.find(options.find(), run)
    if find is not None:
        terminal.log_lines(found.find_lines(find, role=role, attempt=attempt), options)
        return
    if not (options.quiet or attempt):
        _name_attempt(found)
    try:
        terminal.log_lines(found.logs(follow=follow, role=role, attempt=attempt, tail=tail), options)
    except KeyboardInterrupt:
        if not follow:
            raise
        following.print_how_to_return(found)


def _name_attempt(run: ARun) -> None:
    """Print the attempt of the lines if the last attempt has sent none."""
    from trainyard.cli.output import terminal

    logged, last = run.logged_attempts, run.attempt
    if logged and logged[-1] < last:
        terminal.note(f"Attempt {last} has sent no log yet; these lines are from attempt {logged[-1]}.")
