"""List the models."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard models ls")
def ls(options: Options) -> None:
    """List the models with their aliases and newest versions."""
    from datetime import UTC, datetime

    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column
    from trainyard.client.registry import list_models
    from trainyard.protocol.ledger.models import DEFAULT
    from trainyard.values import serialization
    from trainyard.values.quantities import span

    yard = options.find()
    found = [yard.model(each.name).rows for each in list_models(yard)]
    if options.is_json:
        terminal.answer([serialization.to_json(rows.row) for rows in found])
        return
    columns = (
        Column("MODEL"),
        Column("DEFAULT"),
        Column("ALIASES", 1),
        Column("VERSIONS", right=True),
        Column("OWNER", 2),
        Column("AGE", 3, right=True),
    )
    lines = [
        (
            rows.row.name,
            shown.shown if (shown := rows.find(str(rows.row.aliases.get(DEFAULT, 0)))) else "",
            ", ".join(
                f"{alias}={number}" for alias, number in sorted(rows.row.aliases.items()) if alias != DEFAULT
            ),
            str(len(rows.versions)),
            rows.row.owner,
            span((datetime.now(UTC) - rows.row.created).total_seconds()),
        )
        for rows in found
    ]
    terminal.table(columns, lines)
