"""List webhooks."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard webhook ls")
def ls(options: Options) -> None:
    """List the webhooks of the yard, and your own one, without their URLs."""
    from datetime import UTC, datetime

    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column
    from trainyard.client import webhooks
    from trainyard.values import serialization
    from trainyard.values.quantities import span

    found, now = webhooks.list_all(options.find()), datetime.now(UTC)
    if options.is_json:
        terminal.answer([serialization.to_json(each) for each in found])
        return
    columns = (
        Column("NAME"),
        Column("KIND"),
        Column("GETS"),
        Column("RUNS", 1),
        Column("BY", 2),
        Column("AGE", 3),
    )
    lines = []
    for each in found:
        about = each.about
        shown = (about.kind.value, ", ".join(about.on)) if about else ("unknown", "")
        runs = "named" if about and about.named_only else "yours" if each.name == "me" else "all"
        age = span((now - each.at).total_seconds())
        lines.append((each.name, *shown, runs, about.by if about else "", age))
    terminal.table(columns, lines)
