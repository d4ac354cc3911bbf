"""Resume a schedule."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.cli.schedules import Name, print_changed


@command("trainyard schedules resume nightly")
def resume(options: Options, schedule: Name) -> None:
    """Resume a paused schedule. Times during the pause start no runs."""
    from trainyard.client.schedules import find

    find(options.find(), schedule).resume()
    print_changed(options, schedule, "active")
