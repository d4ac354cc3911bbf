"""List dev hosts."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard dev ls", "trainyard dev ls -o json")
def ls(options: Options) -> None:
    """List dev hosts and archived dev hosts with their prices.

    $/MONTH is the price of a whole month in the current state, including older images.
    """
    from dataclasses import asdict

    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column
    from trainyard.client.dev import listing
    from trainyard.values.quantities import format_count

    found = listing.list_dev_hosts(options.find())
    if options.is_json:
        terminal.answer([asdict(host) for host in found])
        return
    columns = (
        Column("NAME"),
        Column("STATE"),
        Column("$/H", 1, right=True),
        Column("$/MONTH", 1, right=True),
        Column("OWNER", 2),
        Column("TYPE", 3),
        Column("ZONE", 5),
        Column("MARKET", 6),
        Column("HOST", 4),
    )
    rows = [
        (
            host.name,
            host.state,
            "" if host.per_hour is None else f"{host.per_hour:.3f}",
            "" if host.per_month is None else f"{host.per_month + host.images_per_month:.2f}",
            host.owner,
            host.type,
            host.zone,
            host.market,
            host.place,
        )
        for host in found
    ]
    terminal.table(columns, rows)
    if not options.quiet:
        month = sum((host.per_month or 0) + host.images_per_month for host in found)
        terminal.hint(f"{format_count(len(found), 'dev host')}, ${month:,.2f} a month in the current state")
