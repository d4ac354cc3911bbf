"""Stop a run."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.arguments import Run
from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard stop digits", "trainyard stop @last --now")
def stop(
    options: Options,
    run: Run,
    now: Annotated[bool, typer.Option("--now", help="Stop at once, without a checkpoint.")] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return without waiting for the end.")
    ] = False,
) -> None:
    """Stop a run after it has saved a checkpoint.

    The run ends as `stopped`, and `resume` continues it. Stopping a run twice does no harm.
    """
    from trainyard.cli import following, runs
    from trainyard.cli.output import terminal

    found = runs.find(options.find(), run)
    if not found.execution.is_over:
        found.stop(now=now)
        if detach:
            following.request_stop(options, found)
            return
        following.wait_for_end(options, found)
    reason = found.reason()
    if options.is_json:
        terminal.answer({"run": found.id, "kind": reason.kind, "says": [*reason.lines]})
        return
    terminal.console.print("\n".join(reason.lines), markup=False)
    if not options.quiet:
        for line in reason.advice:
            terminal.hint(f"Next: {line}")
