"""Let an alias name its previous version."""

from __future__ import annotations

from trainyard.cli.command import command
from trainyard.cli.models import Alias, Name, print_answer
from trainyard.cli.options import Options
from trainyard.protocol.ledger.models import DEFAULT


@command("trainyard models rollback digits")
def rollback(options: Options, name: Name, alias: Alias = DEFAULT) -> None:
    """Reverse the last move of an alias."""
    print_answer(options, options.find().model(name).rollback(alias=alias))
