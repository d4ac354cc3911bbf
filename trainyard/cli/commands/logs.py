"""Print what the programs of a run print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.arguments import Run
from trainyard.cli.command import command
from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.client import Run as ARun


@command("trainyard logs @last -f", "trainyard logs digits --role worker:1 --attempt 2")
def logs(
    options: Options,
    run: Run,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="What comes, too, until it is over.")
    ] = False,
    role: Annotated[
        str | None,
        typer.Option("--role", metavar="ROLE[:N]", help="These hosts alone: worker, worker:1, chief."),
    ] = None,
    attempt: Annotated[
        int | None, typer.Option("--attempt", metavar="N", min=1, help="Not the last one.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", metavar="N", min=1, help="The last lines alone.")
    ] = None,
) -> None:
    """Print what the programs of a run print.

    Lines of all hosts, in the order of time. With -f also of later attempts, until the run is over.
    """
    from trainyard.cli import following, runs
    from trainyard.cli.output import terminal

    found = runs.find(options.find(), run)
    if not (options.quiet or attempt):
        _say_which(found)
    try:
        terminal.log_lines(found.logs(follow=follow, role=role, attempt=attempt, tail=tail), options)
    except KeyboardInterrupt:
        if not follow:
            raise
        following.left_alone(found)


def _say_which(run: ARun) -> None:
    """Say it if the lines are not of the last attempt, because that has sent none."""
    from trainyard.cli.output import terminal

    logged, last = run.logged_attempts, run.attempt
    if logged and logged[-1] < last:
        terminal.note(f"Attempt {last} has sent no log (yet); these lines are of attempt {logged[-1]}.")
