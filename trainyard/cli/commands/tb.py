"""Show runs in TensorBoard on this computer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.arguments import Runs
from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.command_line import command_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainyard.client import Run

SYNC_SECONDS = 5.0


@command("trainyard tb @last", "trainyard tb digits wide --port 6007")
def tb(
    options: Options,
    runs: Runs,
    folder: Annotated[Path, typer.Option(help="Folder for the downloaded events.", readable=False)] = Path(
        "tb"
    ),
    port: Annotated[int, typer.Option(help="Port of TensorBoard on 127.0.0.1.", min=1, max=65535)] = 6006,
) -> None:
    """Show runs in TensorBoard on this computer.

    Downloads new events until Ctrl-C. Needs `pip install tensorboard`.
    """
    from trainyard.cli import runs as known
    from trainyard.cli import tensorboard
    from trainyard.cli.output import terminal

    words, yard = tensorboard.command(), options.find()
    found = [known.find(yard, each) for each in runs]
    with terminal.transfers(options.quiet) as on_progress:
        events = {run.id: run.fetch_events(folder / run.id, on_progress) for run in found}
    for run in find_without_events(found, events):
        terminal.note(f"{run.id} has no TensorBoard events yet.")
    with tensorboard.serve_tensorboard(words, folder, port) as serves:
        terminal.console.print(
            f"http://127.0.0.1:{port}/ shows {', '.join(run.id for run in found)}. Ctrl-C ends TensorBoard."
        )
        while serves():
            for run in found:
                run.fetch_events(folder / run.id)
            time.sleep(SYNC_SECONDS)


def find_without_events(runs: Sequence[Run], events: Mapping[str, int]) -> list[Run]:
    """Return the runs without event files; `events` counts the files of each run.

    Raises NothingFound if all runs have ended without event files.
    """
    from trainyard.client.errors import NothingFound

    without = [run for run in runs if not events[run.id]]
    if len(without) == len(runs) and all(run.execution.is_over for run in runs):
        raise NothingFound(
            f"no TensorBoard events were found for {', '.join(run.id for run in runs)}",
            "the program wrote none to TRAINYARD_TENSORBOARD or into its working folder",
            command_line("show", runs[0].id),
        )
    return without
