"""Pause a schedule."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.cli.schedules import Name, print_changed


@command("trainyard schedules pause nightly")
def pause(options: Options, schedule: Name) -> None:
    """Start no more runs until the schedule is resumed. A running run continues."""
    from trainyard.client.schedules import find

    find(options.find(), schedule).pause()
    print_changed(options, schedule, "paused")
