"""Carry an ssh connection to a dev host."""

from __future__ import annotations

from pathlib import Path

from trainyard.cli.command import command
from trainyard.cli.commands.dev.ssh import proxy_of, say
from trainyard.cli.dev_hosts import Name
from trainyard.cli.options import Options


@command("trainyard dev proxy mine", hidden=True)
def proxy(options: Options, name: Name) -> None:
    """Carry an ssh connection to a dev host.

    ssh runs this command from the entry of `trainyard dev code`. Standard input and output are the connection.
    """
    from trainyard.client.dev import hosts
    from trainyard.client.dev import ssh as by_ssh

    yard = options.find()
    host = hosts.running(yard, name)
    files = by_ssh.Files.of(yard.name, name, Path.home())
    with hosts.explain_denials(yard, host):
        if not by_ssh.has_keys(host, files):  # another instance has replaced the known one
            by_ssh.introduce(yard, host, files, proxy_of(options, yard, name), say)
        by_ssh.carry(yard, host, say)
