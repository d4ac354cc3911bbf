"""Copy files or folders to or from a dev host."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.commands.dev.ssh import write_ssh_files
from trainyard.cli.dev_hosts import check_name
from trainyard.cli.options import Options

Place = Annotated[str, typer.Argument(help="Local path, or NAME:PATH on the dev host.")]


@command("trainyard dev cp ./src mine:src", "trainyard dev cp mine:results.csv .")
def cp(options: Options, source: Place, target: Place) -> None:
    """Copy files or folders to or from a dev host.

    Copies folders recursively. One of the two paths is NAME:PATH, and PATH starts in your home folder.
    """
    from trainyard.client.dev import ssh as by_ssh

    names = [place.partition(":")[0] for place in (source, target) if is_there(place)]
    if len(names) != 1:
        raise typer.BadParameter(
            "one path must be on a dev host and the other on this computer, e.g. ./src mine:src"
        )
    files = write_ssh_files(options, check_name(names[0]))
    words = [
        f"{files.alias}:{place.partition(':')[2]}" if is_there(place) else place for place in (source, target)
    ]
    raise typer.Exit(by_ssh.run(files, "scp", ["-r", "-p", *words]))


def is_there(place: str) -> bool:
    """Return True for a path on a dev host: as with scp, a colon comes before any slash."""
    return ":" in place.partition("/")[0]
