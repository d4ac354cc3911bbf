"""In and through a dev host: a shell, one command, a port."""

from __future__ import annotations

import typer

from trainyard.cli.command import command
from trainyard.cli.commands import sessions
from trainyard.cli.commands.dev.naming import Name
from trainyard.cli.commands.sessions import Line, Ports
from trainyard.cli.options import Options


def register(dev: typer.Typer) -> None:
    command(dev, "shell", "trainyard dev shell mine", "trainyard dev shell mine -- nvidia-smi")(shell)
    command(dev, "forward", "trainyard dev forward mine 6006", "trainyard dev forward mine 8888:18888")(
        forward
    )


def shell(
    options: Options,
    name: Name,
    line: Line = None,
) -> None:
    """Open a shell on a dev host, or run a command there.

    As `trainyard shell` does on any host.
    """
    from trainyard.client.dev import hosts

    yard = options.find()
    host = hosts.running(yard, name)
    with hosts.used(yard, host):
        sessions.enter(yard, host.instance, line)


def forward(
    options: Options,
    name: Name,
    ports: Ports,
) -> None:
    """Reach a port of a dev host on this computer, until Ctrl-C.

    What listens on its loopback alone, too. LOCAL 0 is any port that is free.
    """
    from trainyard.client.dev import hosts

    port, local = sessions.ports_of(ports)
    yard = options.find()
    host = hosts.running(yard, name)
    with hosts.used(yard, host):
        sessions.lead(options, yard, host.instance, port, local)
