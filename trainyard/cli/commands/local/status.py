"""Show the local cloud."""

from __future__ import annotations

from trainyard.cli import clone
from trainyard.cli.arguments import CloudState
from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard local status")
def status(options: Options, state: CloudState = None) -> None:
    """Show whether the local cloud runs, and its hosts."""
    clone.localcloud(options, "status", *(["--json"] if options.is_json else []), state=state)
