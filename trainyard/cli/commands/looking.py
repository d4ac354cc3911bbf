"""A run that there is: what it does, why it waits or has failed, what it prints and leaves."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli import parts
from trainyard.cli.command import command
from trainyard.cli.completion import complete_runs
from trainyard.cli.options import Options
from trainyard.cli.parts import FOLDERS, Part
from trainyard.command_line import command_line

if TYPE_CHECKING:
    from trainyard.client import Run as ARun

MOST_NAMED = 5
"""Files that a sentence names."""
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's id or the beginning of it, a job's name for its newest run, or @last.",
        autocompletion=complete_runs,
    ),
]


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
        following.attached(options, found, logs=False)
    elif options.is_json:
        terminal.answer({**report.as_json(found.status()), "summary": found.summary or None})
    else:
        screen.show_once(found.status())
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


def get(
    options: Options,
    run: Run,
    part: Annotated[
        str,
        typer.Argument(
            metavar="PART",
            parser=parts.parse,
            help=f"{', '.join(Part)}, or outputs/PATH for one file or folder/ of the outputs.",
        ),
    ] = Part.MODEL,
    folder: Annotated[
        Path | None,
        typer.Argument(
            readable=False, help="Folder to fetch into. Default: a folder of the run's id, and PART in it."
        ),
    ] = None,
) -> None:
    """Fetch the model of a run, or another part of what it left.

    A run without an exported model fetches the model among its outputs (SavedModel, .keras, .h5, .pt, .onnx ...), or
    lists them if there are several.

    Files are compared by content: what is there already is not fetched again. Files that an earlier `get` has brought
    into the folder from another run are removed, so that two runs never mix.
    """
    from trainyard.cli import runs
    from trainyard.cli.output import terminal
    from trainyard.client.errors import NothingFound

    found = runs.find(options.find(), run)
    in_folder = part in FOLDERS or part.startswith(f"{Part.OUTPUTS}/")
    target = folder or (Path(found.id) / PurePosixPath(part).parts[0] if in_folder else Path(found.id))
    with terminal.transfers(options.quiet) as tell:
        if part == Part.MODEL:
            part, fetched = found.fetch_model(target, tell)
        else:
            fetched = found.fetch(part, target, tell)
    for line in fetched.left_out:
        terminal.note(f"Left out: {line}")
    if fetched.replaced and not options.quiet:
        named = ", ".join(fetched.replaced[:MOST_NAMED])
        more = f" and {len(fetched.replaced) - MOST_NAMED} more" if len(fetched.replaced) > MOST_NAMED else ""
        terminal.note(f"Replaced, though no get had brought what was there: {named}{more}")
    if not fetched.files:
        there = parts.of(found)
        other = next((each for each in there if each in FOLDERS), None)
        raise NothingFound(
            f"{found.id} has no {part}",
            f"it has left {', '.join(there)}" if there else "it has left nothing (yet)",
            command_line("get", found.id, other) if other else command_line("show", found.id),
        )
    if options.is_json:
        said = {"run": found.id, "part": part, "folder": str(target), "files": fetched.files}
        said |= {"new": fetched.new, "left_out": fetched.left_out}
        terminal.answer(said | {"removed": fetched.removed, "replaced": fetched.replaced})
        return
    terminal.console.print(str(target), markup=False)
    if not options.quiet:
        was = f"; {len(fetched.removed)} of another run removed" if fetched.removed else ""
        of = f" of {part}" if part.startswith(f"{Part.OUTPUTS}/") else ""
        terminal.note(
            f"{fetched.files} file{'s' if fetched.files > 1 else ''}{of}, {fetched.new} of them new{was}"
        )
