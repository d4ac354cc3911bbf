"""Pages of a dev host in the browser of this computer: JupyterLab, TensorBoard."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.commands.dev.naming import Name
from trainyard.cli.commands.page import has_window
from trainyard.cli.commands.sessions import MOST
from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.client.dev.hosts import DevHost

JUPYTER, TENSORBOARD = 8888, 6006
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Only print the address.")]
Port = Annotated[
    int, typer.Option("--port", help="Of 127.0.0.1 here; 0 is any that is free.", min=0, max=MOST)
]


def register(dev: typer.Typer) -> None:
    command(dev, "jupyter", "trainyard dev jupyter mine", "trainyard dev jupyter mine --port 0 --no-browser")(
        jupyter
    )
    command(
        dev,
        "tensorboard",
        "trainyard dev tensorboard mine",
        "trainyard dev tensorboard mine --logdir /tmp/fit",
    )(tensorboard)


def jupyter(options: Options, name: Name, port: Port = JUPYTER, no_browser: NoBrowser = False) -> None:
    """Open a dev host's JupyterLab in the browser of this computer.

    It waits until JupyterLab serves, and holds a way to it until Ctrl-C: nothing is open to the network, and a
    connection that breaks is found again. Notebooks and kernels go on without it. The address has a token: whoever has
    that, and is on this computer, may what you may there.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.dev import hosts
    from trainyard.client.dev import jupyter as jupyters

    yard = options.find()
    host = hosts.find(yard, name)
    ready = shown(options, host, "the way there; JupyterLab and its kernels go on", no_browser=no_browser)
    with hosts.used(yard, host):
        jupyters.hold(yard, name, port, ready, terminal.note)


def tensorboard(
    options: Options,
    name: Name,
    logdir: Annotated[
        str, typer.Option("--logdir", metavar="FOLDER", help="Of the host, from its home.")
    ] = "logs",
    port: Port = TENSORBOARD,
    no_browser: NoBrowser = False,
) -> None:
    """Run TensorBoard on a dev host, and open it in the browser of this computer.

    Until Ctrl-C, which ends it there too. Of a run it is `trainyard tb`.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.dev import hosts
    from trainyard.client.dev import tensorboard as boards

    yard = options.find()
    host = hosts.find(yard, name)
    ready = shown(options, host, "TensorBoard", no_browser=no_browser)
    with hosts.used(yard, host):
        boards.hold(yard, name, logdir, port, ready, terminal.note)


def shown(options: Options, host: DevHost, ends: str, *, no_browser: bool) -> Callable[[str], None]:
    """What is done with a page's address: it is printed, with what Ctrl-C ends, and opened."""
    import threading
    import webbrowser

    from trainyard.cli.output import terminal

    def ready(address: str) -> None:
        if options.is_json:
            terminal.answer_line({"name": host.name, "host": host.instance, "address": address})
        else:
            terminal.console.print(address, markup=False, soft_wrap=True, highlight=False)
        if not options.quiet:
            terminal.hint(f"Ctrl-C ends {ends}.")
        if not no_browser and has_window(os.environ, sys.platform):
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    return ready
