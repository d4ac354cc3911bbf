"""Show what the hosts of a run do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.arguments import Run
from trainyard.cli.command import command
from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.client import Run as FoundRun

EVERY_SECONDS = 20.0


@command("trainyard top @last", "trainyard top digits --once")
def top(
    options: Options,
    run: Run,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", metavar="N", min=1, help="Attempt to show. Default: the last one."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the table once and exit.")] = False,
) -> None:
    """Show what the hosts of a run do: GPUs, processors, memory, disk, network.

    In a terminal, the table stays current until the run ends or Ctrl-C. Hosts write new values once a minute.
    """
    from trainyard.cli import runs
    from trainyard.cli.output import terminal, use
    from trainyard.client.runs.use import use_of

    found = runs.find(options.find(), run)
    if options.is_json:
        terminal.answer(
            {
                "run": found.id,
                "hosts": [
                    use.as_json(host) for host in use_of(found.yard, found.id, attempt or found.attempt)
                ],
            }
        )
    elif once or not terminal.console.is_terminal:
        use.show(use_of(found.yard, found.id, attempt or found.attempt))
    else:
        _watch(found, attempt)


def _watch(run: FoundRun, attempt: int | None) -> None:
    """Keep the table current until the run ends."""
    import time

    from rich.live import Live

    from trainyard.cli.output import terminal, use
    from trainyard.client.runs.use import use_of

    with Live(console=terminal.console, auto_refresh=False) as live:
        try:
            while True:
                is_over = run.execution.is_over
                live.update(
                    use.made(use_of(run.yard, run.id, attempt or run.attempt), terminal.console.width),
                    refresh=True,
                )
                if is_over:
                    return
                time.sleep(EVERY_SECONDS)
        except KeyboardInterrupt:
            return
