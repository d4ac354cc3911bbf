"""A dev host by ssh: a shell, a copy, an editor. Over a session: no port of the host is open."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.commands.dev.naming import Name, checked
from trainyard.cli.commands.sessions import Line
from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.client import Yard
    from trainyard.client.dev.ssh import Files

Place = Annotated[str, typer.Argument(help="A path here, or NAME:PATH on the dev host.")]


def register(dev: typer.Typer) -> None:
    command(dev, "ssh", "trainyard dev ssh mine", "trainyard dev ssh mine -- nvidia-smi")(ssh)
    command(dev, "cp", "trainyard dev cp ./src mine:src", "trainyard dev cp mine:results.csv .")(cp)
    command(dev, "code", "trainyard dev code mine")(code)
    command(dev, "proxy", "trainyard dev proxy mine", hidden=True)(proxy)


def ssh(
    options: Options,
    name: Name,
    line: Line = None,
) -> None:
    """Open a shell on a dev host by ssh, or run a command there.

    Your key is put there and its keys are taken from there by a session, so that neither side trusts a stranger.
    """
    from trainyard.client.dev import ssh as by_ssh

    files = introduced(options, name)
    raise typer.Exit(by_ssh.run(files, "ssh", [files.alias, *(line or [])]))


def cp(options: Options, source: Place, target: Place) -> None:
    """Copy files or folders to or from a dev host.

    Folders with all that is in them. One of the two is NAME:PATH, where PATH begins at your home there.
    """
    from trainyard.client.dev import ssh as by_ssh

    names = [place.partition(":")[0] for place in (source, target) if is_there(place)]
    if len(names) != 1:
        raise typer.BadParameter(
            "one of the two is on a dev host, as in ./src mine:src, and the other is here"
        )
    files = introduced(options, checked(names[0]))
    words = [
        f"{files.alias}:{place.partition(':')[2]}" if is_there(place) else place for place in (source, target)
    ]
    raise typer.Exit(by_ssh.run(files, "scp", ["-r", "-p", *words]))


def code(options: Options, name: Name) -> None:
    """Let an editor of this computer work on a dev host.

    Writes what ssh has to know, for VS Code and all that ask ssh: one block in ~/.ssh/config, the rest of which stays.
    """
    from trainyard.cli.output import terminal
    from trainyard.client.dev import ssh as by_ssh

    files = introduced(options, name)
    is_new = by_ssh.include(files)
    if options.is_json:
        terminal.answer({"host": files.alias, "config": str(files.config), "included": str(files.of_ssh)})
        return
    terminal.console.print(files.alias, markup=False)
    if not options.quiet:
        terminal.note(f"{files.of_ssh} {'now reads' if is_new else 'reads'} {files.config}")
        terminal.hint(f"Next: code --remote ssh-remote+{files.alias}")
        terminal.hint(f"or, in the editor: Remote-SSH: Connect to Host ..., {files.alias}")


def proxy(options: Options, name: Name) -> None:
    """Carry an ssh's connection to a dev host.

    What ssh runs by the entry of `trainyard dev code`: standard input and output are the connection.
    """
    from trainyard.client.dev import hosts
    from trainyard.client.dev import ssh as by_ssh

    yard = options.find()
    host = hosts.running(yard, name)
    files = by_ssh.Files.of(yard.name, name, Path.home())
    with hosts.used(yard, host):
        if not by_ssh.is_known(host, files):  # it is another instance than it was
            by_ssh.introduce(yard, host, files, proxy_of(options, yard, name), _say)
        by_ssh.carry(yard, host, _say)


def introduced(options: Options, name: str) -> Files:
    """What ssh has to know of the host, written down."""
    from trainyard.client.dev import hosts
    from trainyard.client.dev import ssh as by_ssh

    yard = options.find()
    host = hosts.running(yard, name)
    files = by_ssh.Files.of(yard.name, name, Path.home())
    with hosts.used(yard, host):
        by_ssh.introduce(yard, host, files, proxy_of(options, yard, name), _say)
    return files


def proxy_of(options: Options, yard: Yard, name: str) -> list[str]:
    """The command that ssh runs, wherever it is run: which yard is meant, and as whom, is said."""
    begun = Path(sys.argv[0])
    program = (
        [str(begun.absolute())] if begun.name == "trainyard" else [sys.executable, "-m", "trainyard.cli"]
    )
    as_whom = ["--profile", options.profile] if options.profile else []
    return [*program, "--yard", yard.name, "--region", yard.session.region, *as_whom, "dev", "proxy", name]


def is_there(place: str) -> bool:
    """Whether it is a path of a dev host: as with scp, a colon before any slash."""
    return ":" in place.partition("/")[0]


def _say(sentence: str) -> None:
    """Standard output is the connection."""
    sys.stderr.write(f"trainyard: {sentence}\n")
    sys.stderr.flush()
