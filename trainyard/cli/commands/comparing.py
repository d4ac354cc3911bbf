"""Runs against each other: side by side, and in TensorBoard."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainyard.cli.command import command
from trainyard.cli.completion import complete_runs
from trainyard.cli.options import Options
from trainyard.command_line import command_line

if TYPE_CHECKING:
    from trainyard.client.comparison import Comparison

Runs = Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs.", autocompletion=complete_runs)]
SYNC_SECONDS = 5.0


def register(app: typer.Typer) -> None:
    command(
        app, "diff", "trainyard diff digits-1a2b3c4d digits-5e6f7a8b", "trainyard diff @last wide -o json"
    )(diff)
    command(app, "tb", "trainyard tb @last", "trainyard tb digits wide --port 6007")(tb)


def diff(options: Options, runs: Runs) -> None:
    """Set runs side by side: arguments, figures, cost.

    Of the jobs only that in which they differ; with the curves over each other.
    """
    from trainyard.cli import runs as known
    from trainyard.cli.output import terminal
    from trainyard.client.comparison import Comparison, side_of

    if len(runs) < 2:
        raise typer.BadParameter("name two runs or more")
    yard = options.find()
    found = Comparison.of([side_of(known.find(yard, each)) for each in runs])
    if options.is_json:
        sides = {"runs": [side.run for side in found.sides], "losses": [side.losses for side in found.sides]}
        terminal.answer({**sides, "differences": found.differences, "figures": found.figures})
    else:
        _show(found)


def tb(
    options: Options,
    runs: Runs,
    folder: Annotated[Path, typer.Option(help="Where the events are kept in step.", readable=False)] = Path(
        "tb"
    ),
    port: Annotated[int, typer.Option(help="Of TensorBoard on 127.0.0.1.", min=1, max=65535)] = 6006,
) -> None:
    """Show runs in TensorBoard, on this computer.

    Their events are kept in step with the bucket until Ctrl-C. Needs `pip install tensorboard`.
    """
    from trainyard.cli import runs as known
    from trainyard.cli import tensorboard
    from trainyard.cli.output import terminal
    from trainyard.client.errors import NothingFound

    words, yard = tensorboard.command(), options.find()
    found = [known.find(yard, each) for each in runs]
    with terminal.transfers(options.quiet) as tell:
        events = {run.id: run.fetch_events(folder / run.id, tell) for run in found}
    without = [run for run in found if not events[run.id]]
    if len(without) == len(found) and all(run.execution.is_over for run in found):
        raise NothingFound(
            f"{', '.join(run.id for run in found)}: there are no TensorBoard events",
            "the program has written none, neither to TRAINYARD_TENSORBOARD nor into its working folder",
            command_line("show", found[0].id),
        )
    for run in without:
        terminal.note(f"{run.id} has no TensorBoard events (yet).")
    with tensorboard.serving(words, folder, port) as serves:
        terminal.console.print(
            f"http://127.0.0.1:{port}/ shows {', '.join(run.id for run in found)}. Ctrl-C ends it."
        )
        while serves():
            for run in found:
                run.fetch_events(folder / run.id)
            time.sleep(SYNC_SECONDS)


def _show(found: Comparison) -> None:
    from trainyard.cli.output import curve, terminal
    from trainyard.cli.output.terminal import Column

    columns = [Column(""), *(Column(side.run, right=True) for side in found.sides)]
    different = [(key, *map(_value, values)) for key, values in found.differences.items()]
    figures = [
        (key, *map(_value, values))
        for key, values in found.figures.items()
        if any(v is not None for v in values)
    ]
    rows = [*different, *figures]
    terminal.table(columns, rows, [*["bold"] * len(different), *[""] * len(figures)])
    drawn = curve.overlaid({side.run: side.losses for side in found.sides}, room=terminal.console.width)
    if drawn:
        terminal.console.print(drawn, markup=False, soft_wrap=True)


def _value(value: Any) -> str:
    from trainyard.core.values import floats

    if value is None:
        return "-"
    if isinstance(value, float):
        return floats.shown(value, ".4g")
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
