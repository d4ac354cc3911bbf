"""Grant an IAM role, user or group access to the yard."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from trainyard.cli.arguments import Who
from trainyard.cli.command import command
from trainyard.cli.options import Options


class Level(StrEnum):
    """A level of permissions (docs/permissions.md)."""

    VIEWER = "viewer"
    USER = "user"
    OPERATOR = "operator"

    @property
    def policies(self) -> tuple[str, ...]:
        """Return the policies of the level. An operator also has the user's policies."""
        match self:
            case Level.VIEWER:
                return ("viewer",)
            case Level.USER:
                return ("user", "dev")
            case Level.OPERATOR:
                return ("user", "dev", "operator")


@command("trainyard yard grant role/researchers user", "trainyard yard grant user/ada viewer")
def grant(
    options: Options,
    who: Who,
    level: Annotated[
        Level, typer.Argument(metavar="LEVEL", show_choices=False, help="Level: viewer, user or operator.")
    ],
) -> None:
    """Grant an IAM role, user or group access to the yard.

    Attaches the policies of this level and detaches the policies of other levels. An operator also has the user's
    policies.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.admin import people

    yard = options.find()
    granted = people.grant(yard, who, level.policies)
    if options.is_json:
        answer = {"who": who, "level": level, "policies": granted.policies, "detached": granted.detached}
        terminal.answer(answer)
        return
    terminal.console.print(
        f"{who} has the {level}'s policies of {yard.name}: {', '.join(granted.policies)}", markup=False
    )
    if granted.detached:
        terminal.console.print(f"Detached: {', '.join(granted.detached)}", markup=False)
