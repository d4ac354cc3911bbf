"""Open a shell on a dev host by ssh, over a session: no port of the host is open."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trainyard.cli.arguments import Line
from trainyard.cli.command import command
from trainyard.cli.dev_hosts import Name
from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.client import Yard
    from trainyard.client.dev.ssh import Files


@command("trainyard dev ssh mine", "trainyard dev ssh mine -- nvidia-smi")
def ssh(
    options: Options,
    name: Name,
    line: Line = None,
) -> None:
    """Open a shell on a dev host by ssh, or run a command there.

    A session exchanges the keys first, so that ssh trusts no unknown host.
    """
    from trainyard.client.dev import ssh as by_ssh

    files = write_ssh_files(options, name)
    raise typer.Exit(by_ssh.run(files, "ssh", [files.alias, *(line or [])]))


def write_ssh_files(options: Options, name: str) -> Files:
    """Write the ssh files of the host (config, known hosts, key), and return them."""
    from trainyard.client.dev import hosts
    from trainyard.client.dev import ssh as by_ssh

    yard = options.find()
    host = hosts.running(yard, name)
    files = by_ssh.Files.of(yard.name, name, Path.home())
    with hosts.explain_denials(yard, host):
        by_ssh.introduce(yard, host, files, proxy_of(options, yard, name), say)
    return files


def proxy_of(options: Options, yard: Yard, name: str) -> list[str]:
    """Return the command that ssh runs, with the yard, region and profile written out."""
    started = Path(sys.argv[0])
    program = (
        [str(started.absolute())] if started.name == "trainyard" else [sys.executable, "-m", "trainyard.cli"]
    )
    profile = ["--profile", options.profile] if options.profile else []
    return [*program, "--yard", yard.name, "--region", yard.session.region, *profile, "dev", "proxy", name]


def say(sentence: str) -> None:
    """Print to standard error, because standard output is the connection."""
    sys.stderr.write(f"trainyard: {sentence}\n")
    sys.stderr.flush()
