"""Check the account and the yard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.arguments import Settings
from trainyard.cli.command import command
from trainyard.cli.options import NAME, Options

if TYPE_CHECKING:
    from trainyard.client.admin.requirements import Row

SHORT, CANNOT = 1, 3
COLOURS = {"ready": "green", "requested": "cyan", "short": "yellow", "unknown": "yellow", "missing": "red"}


@command("trainyard doctor", "trainyard doctor --request")
def doctor(
    options: Options,
    request: Annotated[
        bool, typer.Option("--request", help="Ask AWS to raise the quotas that are too small.")
    ] = False,
    context: Settings = None,
) -> None:
    """Check the account and the yard.

    Checks identity, region, quotas, network, image, alarms, cost and clock, and prints the command that solves each
    problem. Uses the settings of the deployed yard, if there is one, and of -c. Exits with 0 if everything is ready, 1
    if some jobs need something first, 3 if no yard can be deployed.
    """
    from dataclasses import asdict

    from trainyard.cli import yard_settings
    from trainyard.cli.output import terminal
    from trainyard.client.admin import checkup, local_parts
    from trainyard.client.admin.preflight import Preflight, look, request_increases
    from trainyard.client.deployment import settings_of
    from trainyard.client.errors import YardNotFound

    session = options.session()
    needs = yard_settings.needs(context, settings_of(session, options.yard or NAME))
    seen = look(session, needs)
    if request and (asked := request_increases(session, seen)):
        vcpus = ", ".join(f"{row.desired} vCPUs of {row.quota}" for row in asked)
        terminal.hint(f"Asked AWS for {vcpus}.")
        seen = look(session, needs)
    seen = Preflight((*seen.rows, *local_parts.look(session)))
    try:
        of_yard = checkup.look(options.find())
        subjects = {row.subject for row in of_yard}
        seen = Preflight((*(row for row in seen.rows if row.subject not in subjects), *of_yard))
    except YardNotFound:
        pass
    if options.is_json:
        terminal.answer([asdict(row) for row in seen.rows])
    else:
        _show(seen.rows)
    raise typer.Exit(0 if seen.is_ready else SHORT if seen.can_deploy else CANNOT)


def _show(rows: tuple[Row, ...]) -> None:
    from trainyard.cli.output import terminal

    for row in rows:
        terminal.print_finding(
            row.verdict, COLOURS[row.verdict], row.subject, row.found, row.needed, row.next_step
        )
