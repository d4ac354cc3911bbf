"""Run TensorBoard on a dev host, and open it in the browser of this computer."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.commands.dev.jupyter import NoBrowser, Port, make_printer
from trainyard.cli.dev_hosts import Name
from trainyard.cli.options import Options

JUPYTER, TENSORBOARD = 8888, 6006


@command("trainyard dev tensorboard mine", "trainyard dev tensorboard mine --logdir /tmp/fit")
def tensorboard(
    options: Options,
    name: Name,
    logdir: Annotated[
        str,
        typer.Option("--logdir", metavar="FOLDER", help="Folder on the host, relative to your home folder."),
    ] = "logs",
    port: Port = TENSORBOARD,
    no_browser: NoBrowser = False,
) -> None:
    """Run TensorBoard on a dev host, and open it in the browser of this computer.

    Ctrl-C also ends it on the host. For a run use `trainyard tb`.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.dev import hosts
    from trainyard.client.dev import tensorboard as boards

    yard = options.find()
    host = hosts.find(yard, name)
    ready = make_printer(options, host, "TensorBoard", no_browser=no_browser)
    with hosts.explain_denials(yard, host):
        boards.hold(yard, name, logdir, port, ready, terminal.note)
