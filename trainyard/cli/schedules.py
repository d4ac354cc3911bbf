"""Arguments and answers of the commands about schedules."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainyard.cli.options import Options
from trainyard.command_line import command_line
from trainyard.values import serialization

if TYPE_CHECKING:
    from trainyard.client.schedules import Schedule

Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Name of the schedule, which is its job's.")]
NEXT_TIMES = 3


def print_made(options: Options, made: Schedule) -> None:
    """Print the name of a new schedule and its next times."""
    from trainyard.cli.output import terminal

    if options.is_json:
        terminal.answer(as_json(made))
        return
    terminal.console.print(made.name, markup=False)
    if options.quiet:
        return
    if made.is_paused:
        terminal.hint(f"It is paused. Next: {command_line('schedules', 'resume', made.name)}")
        return
    for at in made.next_times(NEXT_TIMES):
        terminal.hint(f"Next run: {shown(made, at)}")
    terminal.hint(f"Its runs: {command_line('schedules', 'show', made.name)}")


def print_changed(options: Options, name: str, state: str) -> None:
    from trainyard.cli.output import terminal

    if options.is_json:
        terminal.answer({"schedule": name, "state": state})
    else:
        terminal.console.print(f"{name} is {state}.", markup=False)
        if not options.quiet:
            terminal.hint(_explain(name, state))


def _explain(name: str, state: str) -> str:
    """Return what a change means, and what to do next."""
    match state:
        case "paused":
            resume = command_line("schedules", "resume", name)
            return f"It starts no run until it is resumed. A running one continues. Next: {resume}"
        case "removed":
            return f"It starts no run any more. Its runs stay: {command_line('ls')}"
        case _:
            return f"Its next times: {command_line('schedules', 'show', name)}"


def shown(schedule: Schedule, at: datetime) -> str:
    """Return a time in the zone of the schedule."""
    return f"{at.astimezone(zoneinfo.ZoneInfo(schedule.row.zone)):%Y-%m-%d %H:%M} {schedule.row.zone}"


def as_json(schedule: Schedule) -> dict[str, Any]:
    now = datetime.now(UTC)
    row = serialization.to_json(schedule.row)
    return {
        **{name: row[name] for name in ("name", "cron", "zone", "overlap", "by", "key", "since", "paused")},
        "next": [serialization.timestamp(at) for at in schedule.next_times(NEXT_TIMES, now)],
        "recent": row["recent"],
        "missed": [serialization.timestamp(at) for at in schedule.missed(now)],
    }
