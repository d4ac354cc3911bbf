"""Print the environment variables that select the local cloud."""

from __future__ import annotations

from trainyard.cli import clone
from trainyard.cli.arguments import CloudState
from trainyard.cli.command import command
from trainyard.cli.options import Options


@command('eval "$(trainyard local env)"')
def env(options: Options, state: CloudState = None) -> None:
    """Print the environment variables that select the local cloud."""
    clone.localcloud(options, "env", state=state)
