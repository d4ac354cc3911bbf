"""Bring a dev host up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from trainyard.cli.command import command
from trainyard.cli.dev_hosts import Name, monthly, teller
from trainyard.cli.options import Options
from trainyard.command_line import command_line
from trainyard.core.model.instance_types import MarketChoice
from trainyard.exit_codes import ExitCode

if TYPE_CHECKING:
    from trainyard.client.dev.hosts import DevHost
    from trainyard.client.dev.prices import Cost


@command("trainyard dev up mine", "trainyard dev up mine --type g5.xlarge --disk 200")
def up(
    options: Options,
    name: Name,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE", help="Instance type. Repeat it to use the cheapest available one."
        ),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            "--image", metavar="FAMILY|AMI", help="Image to start from. Default: the current image."
        ),
    ] = None,
    hours: Annotated[
        float, typer.Option("--hours", metavar="N", help="Maximum running time, in use or not.")
    ] = 12.0,
    market: Annotated[
        MarketChoice,
        typer.Option(
            metavar="WORD", help="on_demand, spot or spot_then_on_demand. Spot hosts cannot be stopped."
        ),
    ] = MarketChoice.ON_DEMAND,
    zones: Annotated[
        list[str] | None, typer.Option("--zone", metavar="ZONE", help="Zone to launch in. Repeat for more.")
    ] = None,
    disk: Annotated[
        int | None,
        typer.Option(
            "--disk", metavar="GIB", min=1, help="Size of the root disk, at least that of the image."
        ),
    ] = None,
) -> None:
    """Launch a dev host, or start it again with its files.

    Launches from its image if the host was archived, or if its zone has no capacity. The options apply to a host that
    is launched; a stopped host starts unchanged.
    """
    from trainyard.client.dev import hosts, prices
    from trainyard.client.dev.up import bring_up

    yard = options.find()
    asked: dict[str, Any] = {"market": market.value, "hours": hours}
    asked |= {"instance_types": types} if types else {}
    asked |= {"zones": zones} if zones else {}
    asked |= {"disk_gib": disk} if disk else {}
    if image:
        asked["image" if image.startswith("ami-") else "latest"] = image
    was = next(iter(hosts.hosts(yard, name)), None)
    begun, tell = time.monotonic(), teller(options)
    if was and (types or image or zones or disk):
        there = f"{name} is there as {was.type} in {was.zone}"
        tell(f"{there}: --type, --image, --zone and --disk count for a new one")
    try:
        host = bring_up(yard, name, asked, tell)
    except KeyboardInterrupt:
        _left(name)
    cost = prices.cost(prices.of_region(yard), host.price, host.disk_gib or 0)
    _say_up(options, host, cost, time.monotonic() - begun)


def _say_up(options: Options, host: DevHost, cost: Cost, seconds: float) -> None:
    from dataclasses import asdict

    from trainyard.cli.output import terminal
    from trainyard.values.quantities import dollars

    if options.is_json:
        terminal.answer({**asdict(host), "dollars": asdict(cost), "seconds": round(seconds, 1)})
        return
    hourly = f"{dollars(cost.hour)} an hour" if cost.hour is not None else "at a price that nobody knows"
    terminal.console.print(
        f"{host.name} is up: {host.type} in {host.zone}, {host.market.replace('_', ' ')}, {hourly}",
        markup=False,
    )
    if options.quiet:
        return
    kept = f"stopped {monthly(cost.disk)}, as an image {monthly(cost.image)} at most"
    if host.market == "spot":
        kept = f"as an image {monthly(cost.image)} at most"
    terminal.hint(f"{monthly(cost.running)} if it ran for all of it; {kept}; idle, it goes by itself")
    terminal.hint(f"A shell: {command_line('dev', 'shell', host.name)}")
    terminal.hint(f"Down:    {command_line('dev', 'down', host.name)}")


def _left(name: str) -> NoReturn:
    from trainyard.cli.output import terminal

    terminal.hint(f"\n{name} goes on coming up, and costs.")
    terminal.hint(f"Come back: {command_line('dev', 'up', name)}")
    terminal.hint(f"End it:    {command_line('dev', 'down', name, '--keep', 'nothing')}")
    raise typer.Exit(ExitCode.INTERRUPTED)
