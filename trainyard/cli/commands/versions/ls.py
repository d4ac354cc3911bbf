"""List the versions of a model."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.models import Of
from trainyard.cli.options import Options


@command("trainyard versions ls --model digits")
def ls(options: Options, model: Of) -> None:
    """List the versions of a model, newest first."""
    from datetime import UTC, datetime

    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column
    from trainyard.values import serialization
    from trainyard.values.quantities import span

    rows, now = options.find().model(model).rows, datetime.now(UTC)
    found = rows.versions[::-1]
    if options.is_json:
        terminal.answer([serialization.to_json(each) for each in found])
        return
    columns = (
        Column("VERSION", right=True),
        Column("LABEL"),
        Column("STATE"),
        Column("ALIASES", 1),
        Column("RUN", 2),
        Column("LITERT", 4),
        Column("BY", 5),
        Column("AGE", 3, right=True),
    )
    lines = [
        (
            str(each.number),
            each.label,
            each.state.value,
            ", ".join(rows.aliases_of(each.number)),
            each.run or "",
            each.lite.value,
            each.by,
            span((now - each.at).total_seconds()),
        )
        for each in found
    ]
    terminal.table(columns, lines)
