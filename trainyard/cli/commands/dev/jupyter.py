"""Open a dev host's JupyterLab in the browser of this computer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.arguments import MOST_PORT
from trainyard.cli.command import command
from trainyard.cli.commands.ui import has_window
from trainyard.cli.dev_hosts import Name
from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.client.dev.hosts import DevHost

JUPYTER, TENSORBOARD = 8888, 6006
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Only print the address.")]
Port = Annotated[
    int, typer.Option("--port", help="Local port on 127.0.0.1; 0 takes any free port.", min=0, max=MOST_PORT)
]


@command("trainyard dev jupyter mine", "trainyard dev jupyter mine --port 0 --no-browser")
def jupyter(options: Options, name: Name, port: Port = JUPYTER, no_browser: NoBrowser = False) -> None:
    """Open a dev host's JupyterLab in the browser of this computer.

    Waits until JupyterLab serves, and forwards its port until Ctrl-C. No port of the host is open, and a lost
    connection is restored. Notebooks and kernels keep running after Ctrl-C. The address contains a token: any person
    with this address and access to this computer can use your JupyterLab.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.dev import hosts
    from trainyard.client.dev import jupyter as jupyters

    yard = options.find()
    host = hosts.find(yard, name)
    ready = make_printer(
        options, host, "the forward; JupyterLab and its kernels keep running", no_browser=no_browser
    )
    with hosts.explain_denials(yard, host):
        jupyters.hold(yard, name, port, ready, terminal.note)


def make_printer(options: Options, host: DevHost, ends: str, *, no_browser: bool) -> Callable[[str], None]:
    """Return a function that prints the address of a page, says what Ctrl-C `ends`, and opens the page."""
    import threading

    from trainyard.cli.browser import open_page
    from trainyard.cli.output import terminal

    def ready(address: str) -> None:
        if options.is_json:
            terminal.answer_line({"name": host.name, "host": host.instance, "address": address})
        else:
            terminal.console.print(address, markup=False, soft_wrap=True, highlight=False)
        if not options.quiet:
            terminal.hint(f"Ctrl-C ends {ends}.")
        if not no_browser and has_window(os.environ, sys.platform):
            threading.Thread(target=open_page, args=(address,), daemon=True).start()

    return ready
