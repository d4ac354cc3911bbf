"""Upgrade the yard to the version of the clone."""

from __future__ import annotations

from trainyard.cli.arguments import Reset, Settings, Verbose
from trainyard.cli.command import command
from trainyard.cli.commands.yard.deploy import deploy_clone
from trainyard.cli.options import NAME, Options


@command("git pull && trainyard yard upgrade")
def upgrade(
    options: Options, context: Settings = None, reset: Reset = None, verbose: Verbose = False
) -> None:
    """Upgrade the yard to the version of the clone.

    Runs continue. The yard keeps its settings.
    """
    from trainyard.cli import clone
    from trainyard.cli.output import terminal
    from trainyard.client import deployment

    before, after = deployment.version_of(options.session(), options.yard or NAME), clone.version()
    if not options.quiet:
        terminal.hint(f"The yard has version {before}, the clone has version {after}.")
    deploy_clone(options, context, reset, verbose=verbose)
