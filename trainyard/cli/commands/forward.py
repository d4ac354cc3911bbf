"""Forward a port of a host to this computer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import typer

from trainyard.cli.arguments import MOST_PORT, Host, Ports
from trainyard.cli.command import command
from trainyard.cli.hosts import host_of
from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.client import Yard

PORTS = re.compile(r"(\d{1,5})(?::(\d{1,5}))?")


@command("trainyard forward i-0123456789abcdef0 6006", "trainyard forward @last 8888:18888")
def forward(
    options: Options,
    host: Host,
    ports: Ports,
) -> None:
    """Forward a port of a host to this computer, until Ctrl-C.

    For example the port of TensorBoard or of a notebook server, also if it listens only on the host's loopback
    interface. LOCAL 0 takes any free port.
    """
    port, local = ports_of(ports)
    yard = options.find()
    hold_forward(options, yard, host_of(yard, host), port, local)


def hold_forward(options: Options, yard: Yard, target: str, port: int, local: int) -> None:
    """Forward a port of the instance `target` until Ctrl-C."""
    from trainyard.cli.output import terminal
    from trainyard.client.sessions import forward as forwards

    def ready(opened: int) -> None:
        if options.is_json:
            terminal.answer_line({"host": target, "port": port, "local": opened})
            return
        terminal.console.print(f"Forwarding 127.0.0.1:{opened} to port {port} of {target}", markup=False)
        if not options.quiet:
            terminal.hint("Ctrl-C ends the forward.")

    forwards.run(yard, target, port, local, ready, terminal.note)


def ports_of(text: str) -> tuple[int, int]:
    """Parse `6006`, `6006:16006` or `6006:0`. Raises BadParameter."""
    found = PORTS.fullmatch(text)
    port, local = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 0 < port <= MOST_PORT or local > MOST_PORT:
        raise typer.BadParameter(f"{text!r} is not a port; use e.g. 6006 or 6006:16006, up to {MOST_PORT}")
    return port, local
