"""Return to the previous image."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard image rollback")
def rollback(options: Options) -> None:
    """Return to the previous image."""
    from trainyard.cli import following

    following.workflow(options, options.find().start("bake", {"rollback": True}))
