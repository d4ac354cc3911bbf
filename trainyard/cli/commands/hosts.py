"""List the hosts of the yard."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.options import Options
from trainyard.protocol.verdicts import Action

if TYPE_CHECKING:
    from trainyard.client.inventory.hosts import YardHost

STYLES: dict[Action | None, str] = {
    Action.WARN: "yellow",
    Action.STOP: "magenta",
    Action.ARCHIVE: "magenta",
    Action.TERMINATE: "red",
}


@command("trainyard hosts", "trainyard hosts -o json", "trainyard hosts --end-warm")
def hosts(
    options: Options,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also list hosts that have just ended.")
    ] = False,
    end_warm: Annotated[
        bool,
        typer.Option("--end-warm", help="End the hosts in the warm pool; patrol does it within two minutes."),
    ] = False,
) -> None:
    """List hosts with their prices and patrol's verdicts.

    For a host in the warm pool, WARM shows the minutes left, and RUN the run that pays for it.
    """
    from dataclasses import asdict

    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column
    from trainyard.client.inventory import hosts as yards
    from trainyard.values.quantities import dollars, format_count

    yard = options.find()
    found = yards.hosts(yard, gone=everything)
    if end_warm:
        for run in sorted({host.run for host in found if host.warm}):
            yards.end_warm_hosts(yard, run)
    if options.is_json:
        terminal.answer([asdict(host) for host in found])
        return
    now = datetime.now(UTC)
    columns = (
        Column("HOST"),
        Column("STATE", 1),
        Column("VERDICT"),
        Column("SINCE", 2),
        Column("$/H", 3, right=True),
        Column("TYPE", 4),
        Column("MARKET", 6),
        Column("RUN", 5),
        Column("WARM", 7),
        Column("HELD", 7),
        Column("REASON", 8),
    )
    styles = [STYLES.get(host.verdict.action, "") for host in found]
    terminal.table(columns, [_row(host, now) for host in found], styles)
    running = [host.price or 0 for host in found if host.state in ("pending", "running")]
    if not options.quiet:
        terminal.hint(f"{format_count(len(found), 'host')}, {dollars(sum(running))} an hour")
        if end_warm and not any(host.warm for host in found):
            terminal.hint("The warm pool is empty.")
        elif end_warm:
            terminal.hint("No run claims the warm hosts any more; patrol ends them within two minutes.")


def _row(host: YardHost, now: datetime) -> tuple[str, ...]:
    from trainyard.values.quantities import span

    def ago(at: datetime | None) -> str:
        return span((now - at).total_seconds()) if at else ""

    warm = span((host.warm - now).total_seconds()) if host.warm and host.warm > now else ""
    held = span((host.held - now).total_seconds()) if host.held and host.held > now else ""
    price = f"{host.price:.3f}" if host.price is not None else ""
    return (
        host.instance,
        host.state,
        host.verdict,
        ago(host.since),
        price,
        host.type,
        host.market,
        host.run,
        warm,
        held,
        host.reason,
    )
