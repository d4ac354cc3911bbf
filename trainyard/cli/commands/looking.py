"""A run that there is: what it does, why it waits or has failed, what it prints and leaves."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.completion import complete_runs
from trainyard.cli.options import Options
from trainyard.command_line import command_line

Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's id or the beginning of it, a job's name for its newest run, or @last.",
        autocompletion=complete_runs,
    ),
]


class Part(StrEnum):
    """What of a run may be fetched."""

    MODEL = "model"
    CHECKPOINTS = "checkpoints"
    LOGS = "logs"
    TENSORBOARD = "tensorboard"
    NOTEBOOK = "notebook"


def register(app: typer.Typer) -> None:
    command(app, "show", "trainyard show @last", "trainyard show digits --watch")(show)
    command(app, "why", "trainyard why @last")(why)
    command(
        app,
        "logs",
        "trainyard logs @last -f",
        "trainyard logs digits --role worker:1 --attempt 2",
    )(logs)
    command(app, "get", "trainyard get digits", "trainyard get digits checkpoints ./checkpoints")(get)


def show(
    options: Options,
    run: Run,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Until it is over.")] = False,
) -> None:
    """Show a run: states, hosts, curve and cost."""
    from trainyard.cli import following, runs
    from trainyard.cli.output import report, screen, terminal

    found = runs.find(options.find(), run)
    if watch:
        following.attached(options, found)
    elif options.is_json:
        terminal.answer({**report.as_json(found.status()), "summary": found.summary or None})
    else:
        terminal.console.print(screen.panel(found.status()), soft_wrap=False)
        if not options.quiet:
            report.outcome(found)


def why(options: Options, run: Run) -> None:
    """Say why a run waits or has failed.

    And what to do about it: the command that mends it is said, too.
    """
    from trainyard.cli import runs
    from trainyard.cli.output import terminal

    found = runs.find(options.find(), run)
    reason = found.reason()
    if options.is_json:
        terminal.answer(
            {"run": found.id, "kind": reason.kind, "says": [*reason.lines], "next": [*reason.advice]}
        )
        return
    terminal.console.print("\n".join(reason.lines), markup=False)
    for line in reason.advice:
        terminal.hint(f"Next: {line}")


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
    try:
        terminal.log_lines(found.logs(follow=follow, role=role, attempt=attempt, tail=tail), options)
    except KeyboardInterrupt:
        if not follow:
            raise
        following.left_alone(found)


def get(
    options: Options,
    run: Run,
    part: Annotated[
        Part,
        typer.Argument(
            metavar="PART", show_choices=False, help="model, checkpoints, logs, tensorboard or notebook."
        ),
    ] = Part.MODEL,
    folder: Annotated[Path | None, typer.Argument(help="Where to: PART in a folder of the run's id.")] = None,
) -> None:
    """Fetch the model of a run, or what else it left.

    What is there already is not fetched again.
    """
    from trainyard.cli import runs
    from trainyard.cli.output import terminal
    from trainyard.client.errors import RunNotFound

    found = runs.find(options.find(), run)
    target = folder or Path(found.id) / part
    with terminal.transfers(options.quiet) as tell:
        if part is Part.MODEL:
            found.model(target, tell)
            count = sum(1 for each in target.rglob("*") if each.is_file())
        else:
            count = found.fetch("attempts" if part is Part.LOGS else part, target, tell)
    if not count:
        raise RunNotFound(
            f"{found.id} has no {part}", "the program has left none (yet)", command_line("show", found.id)
        )
    if options.is_json:
        terminal.answer({"run": found.id, "part": part, "folder": str(target), "files": count})
    else:
        terminal.console.print(str(target), markup=False)
