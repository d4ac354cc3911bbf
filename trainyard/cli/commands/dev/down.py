"""Stop a dev host."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.dev_hosts import Name, monthly, step_printer
from trainyard.cli.options import Options
from trainyard.command_line import command_line
from trainyard.core.model.dev import Keep


@command("trainyard dev down mine", "trainyard dev down mine --keep image")
def down(
    options: Options,
    name: Name,
    keep: Annotated[
        Keep, typer.Option(metavar="WORD", help="Keep the disk, an image or nothing.")
    ] = Keep.DISK,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Stop a dev host and keep its disk.

    `trainyard dev up` brings it back with its files, from its disk or an image. Prints the monthly price of each.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.dev import hosts, prices
    from trainyard.client.dev.down import take_down

    yard = options.find()
    there, kept = hosts.hosts(yard, name), hosts.images(yard, name)
    gib = max([*(host.disk_gib or 0 for host in there), *(image.gib for image in kept)], default=0)
    cost = prices.cost(prices.read_prices(yard), there[0].price if there else None, gib)
    if keep is Keep.NOTHING and (there or kept) and not yes:
        _confirm(name)
    take_down(yard, name, keep, step_printer(options))
    month = {Keep.DISK: cost.disk, Keep.IMAGE: cost.image, Keep.NOTHING: 0.0}[keep]
    if options.is_json:
        terminal.answer({"name": name, "kept": keep.value, "dollars_per_month": round(month, 2)})
        return
    stays = {
        Keep.DISK: f"{name} is stopped. Its disk of {gib} GiB costs {monthly(cost.disk)}",
        Keep.IMAGE: f"{name} is archived as an image, which costs at most {monthly(cost.image)}",
        Keep.NOTHING: f"{name} is deleted and costs nothing",
    }
    terminal.console.print(stays[keep], markup=False)
    if not options.quiet and keep is Keep.DISK:
        as_image = command_line("dev", "down", name, "--keep", "image")
        terminal.hint(f"As an image it costs at most {monthly(cost.image)}: {as_image}")
    if not options.quiet and keep is not Keep.NOTHING:
        terminal.hint(f"To continue: {command_line('dev', 'up', name)}")


def _confirm(name: str) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("--keep nothing deletes all files; confirm with --yes outside a terminal")
    typer.confirm(f"Delete all files of {name}?", abort=True)
