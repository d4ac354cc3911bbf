"""End the hold of a host."""

from __future__ import annotations

from datetime import timedelta

from trainyard.cli.arguments import HostId
from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard unhold i-0123456789abcdef0")
def unhold(options: Options, host: HostId) -> None:
    """End the hold of a host, so that patrol judges its use again."""
    from trainyard.cli.output import terminal
    from trainyard.client.inventory import hosts as yards

    ended = yards.hold(options.find(), host, timedelta())
    if options.is_json:
        terminal.answer({"host": host, "held": ended})
    else:
        terminal.console.print(f"{host} is not held any longer", markup=False)
