"""List schedules."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.command_line import command_line


@command("trainyard schedules ls", "trainyard schedules ls -o json")
def ls(options: Options) -> None:
    """List the schedules with their next times, last runs, and missed times."""
    from trainyard.cli import schedules
    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column

    found = options.find().schedules()
    if options.is_json:
        terminal.answer([schedules.as_json(each) for each in found])
        return
    columns = (
        Column("SCHEDULE"),
        Column("TIMES"),
        Column("NEXT"),
        Column("LAST RUN", 1),
        Column("SKIPPED", 2, right=True),
        Column("MISSED", 2, right=True),
        Column("OWNER", 3),
    )
    rows = [
        (
            each.name,
            f"{each.row.cron} {each.row.zone}",
            next(
                (schedules.shown(each, at) for at in each.next_times()),
                "paused" if each.is_paused else "not made",
            ),
            each.last_run or "",
            str(sum(firing.answer == "skipped" for firing in each.recent) or ""),
            str(len(each.missed()) or ""),
            each.row.by,
        )
        for each in found
    ]
    terminal.table(columns, rows)
    if not found and not options.quiet:
        terminal.hint(
            f"No schedules. Next: {command_line('submit', 'JOB')}, with a section schedule in the job file"
        )
