"""Dev hosts: a host to sit at, by its name. Each module registers the commands that it has."""

from __future__ import annotations

import typer

from trainyard.cli.command import group
from trainyard.cli.commands.dev import coming, listing, pages, reaching, sshing


def register(app: typer.Typer) -> None:
    dev = group("Dev hosts: a host to sit at, which stops by itself.")
    app.add_typer(dev, name="dev")
    for drawer in (coming, listing, reaching, pages, sshing):
        drawer.register(dev)
