"""Remove a webhook."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.commands.webhook.add import Name
from trainyard.cli.options import Options


@command("trainyard webhook rm ml")
def rm(options: Options, name: Name) -> None:
    """Remove a webhook. Jobs that name it run, and send it nothing."""
    from trainyard.cli.output import terminal
    from trainyard.client import webhooks

    webhooks.remove(options.find(), name)
    if options.is_json:
        terminal.answer({"removed": name})
    else:
        terminal.console.print(f"{name} is removed", markup=False)
