"""Show a schedule."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.cli.schedules import Name


@command("trainyard schedules show nightly")
def show(options: Options, schedule: Name) -> None:
    """Show a schedule: its next times, and what happened at the last ones."""
    from trainyard.cli import schedules
    from trainyard.cli.output import terminal
    from trainyard.client.schedules import find
    from trainyard.protocol.ledger.schedules import Answer

    found = find(options.find(), schedule)
    if options.is_json:
        terminal.answer(schedules.as_json(found))
        return
    state = "paused" if found.is_paused else "active" if found.row.made else "not made yet"
    times = f"{found.row.cron} {found.row.zone}"
    terminal.console.print(f"{found.name}: {state}, {times}, of {found.row.by}", markup=False)
    terminal.console.print(f"Job file: {found.row.key}", markup=False)
    for at in found.next_times(schedules.NEXT_TIMES):
        terminal.console.print(f"Next run: {schedules.shown(found, at)}", markup=False)
    said = {
        Answer.STARTED: "started {run}",
        Answer.SKIPPED: "skipped, because {run} had not ended",
    }
    lines = [(each.at, said[each.answer].format(run=each.run)) for each in found.recent]
    lines += [(at, "missed: EventBridge Scheduler has not delivered it") for at in found.missed()]
    for at, what in sorted(lines, reverse=True):
        terminal.console.print(f"{schedules.shown(found, at)}: {what}", markup=False)
