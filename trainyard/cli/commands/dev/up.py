"""Launch or start a dev host."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from trainyard.cli.command import command
from trainyard.cli.dev_hosts import Name, monthly, step_printer
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
            "--disk",
            metavar="GIB",
            min=1,
            help="Size of the root disk. Default and minimum: size of the image.",
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
    begun, on_step = time.monotonic(), step_printer(options)
    if was and (types or image or zones or disk):
        on_step(
            f"{name} exists as {was.type} in {was.zone}; --type, --image, --zone and --disk apply only to a new host"
        )
    try:
        host = bring_up(yard, name, asked, on_step)
    except KeyboardInterrupt:
        _end_interrupted(name)
    cost = prices.cost(prices.read_prices(yard), host.price, host.disk_gib or 0)
    _show(options, host, cost, time.monotonic() - begun)


def _show(options: Options, host: DevHost, cost: Cost, seconds: float) -> None:
    from dataclasses import asdict

    from trainyard.cli.output import terminal
    from trainyard.values.quantities import dollars

    if options.is_json:
        terminal.answer({**asdict(host), "dollars": asdict(cost), "seconds": round(seconds, 1)})
        return
    hourly = f"{dollars(cost.hour)} an hour" if cost.hour is not None else "at an unknown price"
    terminal.console.print(
        f"{host.name} is up: {host.type} in {host.zone}, {host.market.replace('_', ' ')}, {hourly}",
        markup=False,
    )
    if options.quiet:
        return
    kept = f"stopped {monthly(cost.disk)}, as an image at most {monthly(cost.image)}"
    if host.market == "spot":
        kept = f"as an image at most {monthly(cost.image)}"
    terminal.hint(f"{monthly(cost.running)} if it runs all month; {kept}; it stops by itself when idle")
    terminal.hint(f"Shell: {command_line('dev', 'shell', host.name)}")
    terminal.hint(f"Stop:  {command_line('dev', 'down', host.name)}")


def _end_interrupted(name: str) -> NoReturn:
    from trainyard.cli.output import terminal

    terminal.hint(f"\n{name} continues to start, and costs money.")
    terminal.hint(f"Continue: {command_line('dev', 'up', name)}")
    terminal.hint(f"Delete it: {command_line('dev', 'down', name, '--keep', 'nothing')}")
    raise typer.Exit(ExitCode.INTERRUPTED)
