"""A dev host comes up, and goes down."""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from trainyard.cli.command import command
from trainyard.cli.commands.dev.naming import Name
from trainyard.cli.failures import Code
from trainyard.cli.options import Options
from trainyard.command_line import command_line
from trainyard.core.model.dev import Keep

if TYPE_CHECKING:
    from trainyard.client.dev.asking import Tell
    from trainyard.client.dev.hosts import DevHost
    from trainyard.client.dev.prices import Cost


class Market(StrEnum):
    """Where EC2 is asked for the host."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    SPOT_THEN_ON_DEMAND = "spot_then_on_demand"


def register(dev: typer.Typer) -> None:
    command(dev, "up", "trainyard dev up mine", "trainyard dev up mine --type g5.xlarge --disk 200")(up)
    command(dev, "down", "trainyard dev down mine", "trainyard dev down mine --keep image")(down)


def up(
    options: Options,
    name: Name,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="An instance type; several: the cheapest that there is."),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            "--image", metavar="FAMILY|AMI", help="Start from this one, not from the current image."
        ),
    ] = None,
    hours: Annotated[
        float, typer.Option("--hours", metavar="N", help="How long it may run at most, used or not.")
    ] = 12.0,
    market: Annotated[
        Market,
        typer.Option(metavar="WORD", help="on_demand, spot or spot_then_on_demand. EC2 stops no spot host."),
    ] = Market.ON_DEMAND,
    zones: Annotated[
        list[str] | None, typer.Option("--zone", metavar="ZONE", help="Launch in these alone.")
    ] = None,
    disk: Annotated[
        int | None,
        typer.Option("--disk", metavar="GIB", min=1, help="Of its root disk, no less than the image's."),
    ] = None,
) -> None:
    """Bring a dev host up: launch it, or start it again with its files.

    From its image, in another zone if need be, where there is no room or it has become one. The options are for one
    that is launched; a stopped one starts as it was.
    """
    from trainyard.client.dev import coming, hosts, prices

    yard = options.find()
    asked: dict[str, Any] = {"market": market.value, "hours": hours}
    asked |= {"instance_types": types} if types else {}
    asked |= {"zones": zones} if zones else {}
    asked |= {"disk_gib": disk} if disk else {}
    if image:
        asked["image" if image.startswith("ami-") else "latest"] = image
    was = next(iter(hosts.hosts(yard, name)), None)
    begun, tell = time.monotonic(), _teller(options)
    if was and (types or image or zones or disk):
        there = f"{name} is there as {was.type} in {was.zone}"
        tell(f"{there}: --type, --image, --zone and --disk count for a new one")
    try:
        host = coming.up(yard, name, asked, tell)
    except KeyboardInterrupt:
        _left(name)
    cost = prices.cost(prices.of_region(yard), host.price, host.disk_gib or 0)
    _say_up(options, host, cost, time.monotonic() - begun)


def down(
    options: Options,
    name: Name,
    keep: Annotated[
        Keep, typer.Option(metavar="WORD", help="What stays: its disk, an image of it, or nothing.")
    ] = Keep.DISK,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether nothing shall stay.")] = False,
) -> None:
    """Take a dev host down, and keep its disk.

    `trainyard dev up` brings it back with its files from a disk or an image. What each costs a month is said.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.dev import going, hosts, prices

    yard = options.find()
    there, kept = hosts.hosts(yard, name), hosts.images(yard, name)
    gib = max([*(host.disk_gib or 0 for host in there), *(image.gib for image in kept)], default=0)
    cost = prices.cost(prices.of_region(yard), there[0].price if there else None, gib)
    if keep is Keep.NOTHING and (there or kept) and not yes:
        _confirm(name)
    going.down(yard, name, keep, _teller(options))
    month = {Keep.DISK: cost.disk, Keep.IMAGE: cost.image, Keep.NOTHING: 0.0}[keep]
    if options.is_json:
        terminal.answer({"name": name, "kept": keep.value, "dollars_per_month": round(month, 2)})
        return
    stays = {
        Keep.DISK: f"{name} is stopped. Its disk of {gib} GiB costs {_month(cost.disk)}",
        Keep.IMAGE: f"{name} is an image, which costs {_month(cost.image)} at most",
        Keep.NOTHING: f"Nothing of {name} is left, and nothing of it costs anything",
    }
    terminal.console.print(stays[keep], markup=False)
    if not options.quiet and keep is Keep.DISK:
        as_image = command_line("dev", "down", name, "--keep", "image")
        terminal.hint(f"As an image it would cost {_month(cost.image)} at most: {as_image}")
    if not options.quiet and keep is not Keep.NOTHING:
        terminal.hint(f"Back with its files: {command_line('dev', 'up', name)}")


def _say_up(options: Options, host: DevHost, cost: Cost, seconds: float) -> None:
    from dataclasses import asdict

    from trainyard.cli.output import terminal
    from trainyard.core.values.quantities import dollars

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
    kept = f"stopped {_month(cost.disk)}, as an image {_month(cost.image)} at most"
    if host.market == "spot":
        kept = f"as an image {_month(cost.image)} at most"
    terminal.hint(f"{_month(cost.running)} if it ran for all of it; {kept}; idle, it goes by itself")
    terminal.hint(f"A shell: {command_line('dev', 'shell', host.name)}")
    terminal.hint(f"Down:    {command_line('dev', 'down', host.name)}")


def _month(amount: float | None) -> str:
    return "an unknown sum a month" if amount is None else f"${amount:,.2f} a month"


def _teller(options: Options) -> Tell:
    """Steps, with the seconds since the first of them, beside the answer."""
    from trainyard.cli.output import terminal

    begun = time.monotonic()

    def tell(step: str) -> None:
        if not options.quiet:
            terminal.note(f"{time.monotonic() - begun:4.0f} s  {step}")

    return tell


def _left(name: str) -> NoReturn:
    from trainyard.cli.output import terminal

    terminal.hint(f"\n{name} goes on coming up, and costs.")
    terminal.hint(f"Come back: {command_line('dev', 'up', name)}")
    terminal.hint(f"End it:    {command_line('dev', 'down', name, '--keep', 'nothing')}")
    raise typer.Exit(Code.INTERRUPTED)


def _confirm(name: str) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("--keep nothing deletes its files: say --yes where nobody can be asked")
    typer.confirm(f"Delete all files of {name}?", abort=True)
