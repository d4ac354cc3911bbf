"""List sessions on hosts."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.completion import complete_hosts
from trainyard.cli.options import Options
from trainyard.command_line import command_line


@command("trainyard sessions", "trainyard sessions mine", "trainyard sessions -n 500 -o json")
def sessions(
    options: Options,
    host: Annotated[
        str | None,
        typer.Argument(
            metavar="HOST",
            help="ID of a host (i-...) or name of a dev host. Default: all hosts.",
            autocompletion=complete_hosts,
        ),
    ] = None,
    number: Annotated[int, typer.Option("-n", help="Maximum number of rows.", min=1)] = 50,
) -> None:
    """List sessions on hosts: shells, commands, forwards, ssh.

    Covers the last thirty days, with user and duration. Session Manager does not record keystrokes by default.
    """
    from dataclasses import asdict
    from datetime import UTC, datetime

    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column
    from trainyard.client.dev import hosts
    from trainyard.client.errors import NothingFound
    from trainyard.client.inventory import sessions as log
    from trainyard.values.quantities import format_count, span

    yard = options.find()
    instance = hosts.find(yard, host).instance if host and not host.startswith("i-") else host
    found = log.list_sessions(yard, instance, limit=number)
    if host and not found:
        raise NothingFound(
            f"Session Manager lists no session on {host}",
            "it keeps sessions for thirty days; the host may have had none, or may not exist",
            command_line("hosts", "--all"),
        )
    if options.is_json:
        terminal.answer([asdict(each) for each in found])
        return
    columns = (
        Column("STARTED (UTC)"),
        Column("DURATION", 1),
        Column("USER"),
        Column("KIND", 2),
        Column("HOST"),
        Column("NAME", 3),
    )
    now = datetime.now(UTC)
    rows = [
        (
            f"{each.began.astimezone(UTC):%Y-%m-%d %H:%M:%S}",
            span(((each.ended or now) - each.began).total_seconds()) + ("" if each.ended else " so far"),
            each.who,
            each.what,
            each.host,
            each.name,
        )
        for each in found
    ]
    terminal.table(columns, rows)
    if not options.quiet:
        on = sum(each.ended is None for each in found)
        terminal.hint(f"{format_count(len(found), 'session')}, {on} of them open")
