"""Remove a schedule."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.cli.schedules import Name, print_changed


@command("trainyard schedules rm nightly")
def rm(options: Options, schedule: Name) -> None:
    """Remove a schedule. Its runs stay, and a running run continues."""
    from trainyard.client.schedules import find

    find(options.find(), schedule).remove()
    print_changed(options, schedule, "removed")
