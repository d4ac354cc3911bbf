"""Keep a host running for a while, even if it is idle."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

import typer

from trainyard.cli.arguments import HostId
from trainyard.cli.command import command
from trainyard.cli.options import Options

LASTS = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?")


@command("trainyard hold i-0123456789abcdef0 2h", "trainyard hold i-0123456789abcdef0 1h30m")
def hold(
    options: Options,
    host: HostId,
    lasts: Annotated[str, typer.Argument(metavar="TIME", help="Duration, e.g. 90m, 2h, 1h30m.")] = "2h",
) -> None:
    """Keep a host running for a while, even if it is idle.

    Patrol does not stop it meanwhile. On the host itself, `trainyard hold 2h` does the same without the ID.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.inventory import hosts as yards

    until = yards.hold(options.find(), host, period(lasts))
    if options.is_json:
        terminal.answer({"host": host, "held": until})
    else:
        terminal.console.print(f"{host} is held until {until:%Y-%m-%d %H:%M} UTC", markup=False)


def period(text: str) -> timedelta:
    """Parse `90m`, `2h` or `1h30m`. Raises BadParameter."""
    found = LASTS.fullmatch(text)
    if not text or not found:
        raise typer.BadParameter(f"{text!r} is not a duration; use e.g. 90m, 2h or 1h30m")
    return timedelta(hours=int(found[1] or 0), minutes=int(found[2] or 0))
