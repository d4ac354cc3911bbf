"""Explain why a run waits or has failed."""

from __future__ import annotations

from trainyard.cli.arguments import Run
from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard why @last")
def why(options: Options, run: Run) -> None:
    """Explain why a run waits or has failed.

    Prints the cause and the command that solves it.
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
