"""Test a webhook."""

from __future__ import annotations

import typer

from trainyard.cli.command import command
from trainyard.cli.commands.webhook.add import Name
from trainyard.cli.options import Options
from trainyard.exit_codes import ExitCode


@command("trainyard webhook test ml")
def test(options: Options, name: Name) -> None:
    """Let the yard send a message to a webhook, and print the receiver's answer."""
    from trainyard.cli.output import terminal
    from trainyard.client import webhooks

    problem = webhooks.test(options.find(), name)
    if options.is_json:
        terminal.answer({"name": name, "sent": not problem, "problem": problem})
    else:
        said = f"{name} did not take the message: {problem}" if problem else f"{name} took the message"
        terminal.console.print(said, markup=False)
    if problem:
        raise typer.Exit(ExitCode.REFUSED)
