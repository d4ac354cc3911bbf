"""Forward a port of a dev host to this computer."""

from __future__ import annotations

from trainyard.cli.arguments import Ports
from trainyard.cli.command import command
from trainyard.cli.commands.forward import hold_forward, ports_of
from trainyard.cli.dev_hosts import Name
from trainyard.cli.options import Options


@command("trainyard dev forward mine 6006", "trainyard dev forward mine 8888:18888")
def forward(
    options: Options,
    name: Name,
    ports: Ports,
) -> None:
    """Forward a port of a dev host to this computer, until Ctrl-C.

    Includes ports that listen only on the host's loopback interface. LOCAL 0 takes any free port.
    """
    from trainyard.client.dev import hosts

    port, local = ports_of(ports)
    yard = options.find()
    host = hosts.running(yard, name)
    with hosts.explain_denials(yard, host):
        hold_forward(options, yard, host.instance, port, local)
