"""Show the yard and its current activity."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard yard status")
def status(options: Options) -> None:
    """Show the yard and its current activity."""
    from trainyard.cli.output import terminal
    from trainyard.client.inventory import overview

    found = overview.read_overview(options.find())
    if options.is_json:
        terminal.answer(found.to_json())
        return
    for name, value in found.lines():
        terminal.console.print(f"{name:<10} {value}", markup=False)
