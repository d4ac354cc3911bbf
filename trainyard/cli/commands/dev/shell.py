"""Open a shell on a dev host, or run a command there."""

from __future__ import annotations

from trainyard.cli.arguments import Line
from trainyard.cli.command import command
from trainyard.cli.commands.shell import enter
from trainyard.cli.dev_hosts import Name
from trainyard.cli.options import Options


@command("trainyard dev shell mine", "trainyard dev shell mine -- nvidia-smi")
def shell(
    options: Options,
    name: Name,
    line: Line = None,
) -> None:
    """Open a shell on a dev host, or run a command there.

    Works like `trainyard shell`, on your own dev hosts.
    """
    from trainyard.client.dev import hosts

    yard = options.find()
    host = hosts.running(yard, name)
    with hosts.explain_denials(yard, host):
        enter(yard, host.instance, line)
