"""Revoke the access of an IAM role, user or group."""

from __future__ import annotations

from trainyard.cli.arguments import Who
from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard yard revoke user/ada")
def revoke(options: Options, who: Who) -> None:
    """Revoke the access of an IAM role, user or group.

    Detaches the yard's policies. Runs and dev hosts of a user stay.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.admin import people

    yard = options.find()
    detached = people.revoke(yard, who)
    if options.is_json:
        terminal.answer({"who": who, "detached": detached})
    elif detached:
        terminal.console.print(
            f"{who} no longer has policies of {yard.name}. Detached: {', '.join(detached)}", markup=False
        )
    else:
        terminal.console.print(f"{who} had no policies of {yard.name}; nothing has changed.", markup=False)
