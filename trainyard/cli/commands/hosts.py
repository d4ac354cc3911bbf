"""The hosts of the yard: which there are, why each is kept, and holding one."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.completion import complete_hosts
from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.client.inventory.hosts import YardHost

Host = Annotated[
    str, typer.Argument(metavar="HOST", help="An instance's id (i-...).", autocompletion=complete_hosts)
]
LASTS = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?")
STYLES = {"keep": "", "warn": "yellow", "stop": "magenta", "archive": "magenta", "terminate": "red"}


def register(app: typer.Typer) -> None:
    command(app, "hosts", "trainyard hosts", "trainyard hosts -o json", "trainyard hosts --cool")(hosts)
    command(app, "hold", "trainyard hold i-0123456789abcdef0 2h", "trainyard hold i-0123456789abcdef0 1h30m")(
        hold
    )
    command(app, "release", "trainyard release i-0123456789abcdef0")(release)


def hosts(
    options: Options,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Those also that have just ended.")] = False,
    cool: Annotated[
        bool,
        typer.Option(
            "--cool", help="End those that wait in the pool for a run: patrol does, in two minutes."
        ),
    ] = False,
) -> None:
    """List hosts, their prices and patrol's verdicts.

    One that waits in the pool has the minutes that are left under WARM, and the run that pays for it under RUN.
    """
    from dataclasses import asdict

    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column
    from trainyard.client.inventory import hosts as yards
    from trainyard.core.values.quantities import dollars

    yard = options.find()
    found = yards.hosts(yard, gone=everything)
    if cool:
        for run in sorted({host.run for host in found if host.warm}):
            yards.cool(yard, run)
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
    styles = [STYLES.get(host.verdict.partition("-")[0], "") for host in found]
    terminal.table(columns, [_row(host, now) for host in found], styles)
    running = [host.price or 0 for host in found if host.state in ("pending", "running")]
    if not options.quiet:
        count = f"{len(found)} host{'' if len(found) == 1 else 's'}"
        terminal.hint(f"{count}, {dollars(sum(running))} an hour")
        if cool and not any(host.warm for host in found):
            terminal.hint("no host waits in the pool")
        elif cool:
            terminal.hint(
                "none that was warm is given to a run any more, and patrol ends them within two minutes"
            )


def hold(
    options: Options,
    host: Host,
    lasts: Annotated[str, typer.Argument(metavar="TIME", help="For how long: 90m, 2h, 1h30m.")] = "2h",
) -> None:
    """Have patrol leave a host alone for a while.

    Idle or not. On a host `trainyard hold 2h`, without the id, does the same: there the agent has that name.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.inventory import hosts as yards

    until = yards.hold(options.find(), host, period(lasts))
    if options.is_json:
        terminal.answer({"host": host, "held": until})
    else:
        terminal.console.print(f"{host} is held until {until:%Y-%m-%d %H:%M} UTC", markup=False)


def release(options: Options, host: Host) -> None:
    """End the hold of a host: its use decides again."""
    from trainyard.cli.output import terminal
    from trainyard.client.inventory import hosts as yards

    ended = yards.hold(options.find(), host, timedelta())
    if options.is_json:
        terminal.answer({"host": host, "held": ended})
    else:
        terminal.console.print(f"{host} is no longer held", markup=False)


def period(text: str) -> timedelta:
    """`90m`, `2h`, `1h30m`."""
    found = LASTS.fullmatch(text)
    if not text or not found:
        raise typer.BadParameter(f"a time is like 90m, 2h or 1h30m, not {text!r}")
    return timedelta(hours=int(found[1] or 0), minutes=int(found[2] or 0))


def _row(host: YardHost, now: datetime) -> tuple[str, ...]:
    from trainyard.core.values.quantities import span

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
