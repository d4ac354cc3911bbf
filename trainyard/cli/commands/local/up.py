"""Start the local cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainyard.cli import clone
from trainyard.cli.arguments import CloudState
from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.command_line import command_line

PORT = 4566


@command('trainyard local up && eval "$(trainyard local env)"')
def up(
    options: Options,
    state: CloudState = None,
    port: Annotated[
        int | None,
        typer.Option(
            help=f"Port of its endpoint on 127.0.0.1. Default: {PORT}, or a free one if that is taken.",
            min=1,
            max=65535,
        ),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(readable=False, help="YAML file that overrides prices, capacity and latencies."),
    ] = None,
) -> None:
    """Start the local cloud in the background."""
    from trainyard.cli.output import terminal

    more = ["--settings", str(settings)] if settings else []
    clone.localcloud(
        options, "up", "--detach", "--port", str(port or clone.port_for(PORT)), *more, state=state
    )
    if not options.quiet:
        env = command_line("local", "env", *(("--state", state) if state else ()))
        terminal.hint(f'Next: eval "$({env})", then {command_line("yard", "deploy")}')
