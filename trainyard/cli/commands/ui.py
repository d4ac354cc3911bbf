"""Show the yard on a page in the browser."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.options import Options


@command("trainyard ui", "trainyard ui --no-browser --port 8780")
def ui(
    options: Options,
    port: Annotated[
        int | None,
        typer.Option("--port", help="Port on 127.0.0.1. Default: 8780, or a free one.", min=0, max=65535),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Show the yard on a page in the browser.

    Uses your credentials and runs until Ctrl-C. Its address contains a token: any person with this address and access
    to this computer can act in your name.
    """
    import threading

    from trainyard.cli.browser import open_page
    from trainyard.cli.output import terminal
    from trainyard.ui.serve import serve

    def ready(address: str, once: str) -> None:
        if options.is_json:
            terminal.answer_line({"address": address})
        else:
            terminal.console.print(address, markup=False, soft_wrap=True, highlight=False)
        if not options.quiet:
            terminal.hint("Ctrl-C ends the page; runs continue.")
        if not no_browser and has_window(os.environ, sys.platform):
            threading.Thread(target=open_page, args=(once,), daemon=True).start()

    serve(options.find, options.find(), port, ready)


def has_window(environment: Mapping[str, str], platform: str) -> bool:
    """Return True if a graphical browser can open. Without one, Python would start a text browser in the terminal."""
    return platform == "darwin" or any(
        environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
