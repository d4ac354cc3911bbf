"""In and through a host: a shell, one command, a port; and who was there."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.command import command
from trainyard.cli.completion import complete_hosts
from trainyard.cli.options import Options
from trainyard.command_line import command_line

if TYPE_CHECKING:
    from trainyard.client import Yard

Where = Annotated[
    str,
    typer.Argument(
        metavar="HOST",
        help="An instance's id (i-...), or a run as elsewhere: then its first host that runs.",
        autocompletion=complete_hosts,
    ),
]
Line = Annotated[
    list[str] | None, typer.Argument(metavar="-- COMMAND", help="Run this alone, and end as it does.")
]
Ports = Annotated[
    str, typer.Argument(metavar="PORT[:LOCAL]", help="The host's, and this computer's if it is another.")
]
PORTS = re.compile(r"(\d{1,5})(?::(\d{1,5}))?")
MOST = 65535


def register(app: typer.Typer) -> None:
    command(
        app, "shell", "trainyard shell i-0123456789abcdef0", "trainyard shell @last -- nvidia-smi -q -d POWER"
    )(shell)
    command(
        app, "forward", "trainyard forward i-0123456789abcdef0 6006", "trainyard forward @last 8888:18888"
    )(forward)
    command(
        app, "sessions", "trainyard sessions", "trainyard sessions mine", "trainyard sessions -n 500 -o json"
    )(sessions)


def shell(
    options: Options,
    host: Where,
    line: Line = None,
) -> None:
    """Open a shell on a host, or run a command there.

    By Session Manager, without its plugin: nothing is open to the network. A connection that breaks is found again,
    and nothing is lost. Enter, ~ and a full stop leave a shell that does not answer.
    """
    yard = options.find()
    enter(yard, host_of(yard, host), line)


def forward(
    options: Options,
    host: Where,
    ports: Ports,
) -> None:
    """Reach a port of a host on this computer, until Ctrl-C.

    Such as TensorBoard's or a notebook's: what listens on the host's loopback alone, too. LOCAL 0 is any port that is
    free.
    """
    port, local = ports_of(ports)
    yard = options.find()
    lead(options, yard, host_of(yard, host), port, local)


def sessions(
    options: Options,
    host: Annotated[
        str | None,
        typer.Argument(
            metavar="HOST",
            help="An instance's id (i-...), or a dev host's name; without one all of the yard.",
            autocompletion=complete_hosts,
        ),
    ] = None,
    number: Annotated[int, typer.Option("-n", help="So many at most.", min=1)] = 50,
) -> None:
    """Say who was on which host, and for how long: shells, commands, forwards, ssh.

    Of the last thirty days, as Session Manager keeps it. What was typed it does not keep.
    """
    from dataclasses import asdict
    from datetime import UTC, datetime

    from trainyard.cli.output import terminal
    from trainyard.cli.output.terminal import Column
    from trainyard.client.dev import hosts
    from trainyard.client.errors import NothingFound
    from trainyard.client.inventory import sessions as log
    from trainyard.core.values.quantities import span

    yard = options.find()
    instance = hosts.find(yard, host).instance if host and not host.startswith("i-") else host
    found = log.of(yard, instance, limit=number)
    if host and not found:
        raise NothingFound(
            f"no session on {host} is known",
            "Session Manager keeps sessions for thirty days; the host may never have had one, or not exist",
            command_line("hosts", "--all"),
        )
    if options.is_json:
        terminal.answer([asdict(each) for each in found])
        return
    columns = (
        Column("BEGAN (UTC)"),
        Column("LASTED", 1),
        Column("WHO"),
        Column("WHAT", 2),
        Column("HOST"),
        Column("NAME", 3),
    )
    now = datetime.now(UTC)
    rows = [
        (
            f"{each.began.astimezone(UTC):%Y-%m-%d %H:%M:%S}",
            span(((each.ended or now) - each.began).total_seconds()) + ("" if each.ended else " so far"),
            each.who,
            each.what,
            each.host,
            each.name,
        )
        for each in found
    ]
    terminal.table(columns, rows)
    if not options.quiet:
        on = sum(each.ended is None for each in found)
        terminal.hint(f"{len(found)} session{'' if len(found) == 1 else 's'}, {on} of them now")


def enter(yard: Yard, target: str, line: Sequence[str] | None) -> None:
    """A shell on that instance, or the command `line` there, whose exit code is then this one's."""
    from trainyard.client.sessions import shell as shells

    if line:
        raise typer.Exit(shells.run_command(yard, target, line, _tell))
    shells.run(yard, target, _tell)


def lead(options: Options, yard: Yard, target: str, port: int, local: int) -> None:
    """Hold a forward to that instance's port until Ctrl-C."""
    from trainyard.cli.output import terminal
    from trainyard.client.sessions import forward as forwards

    def ready(opened: int) -> None:
        if options.is_json:
            terminal.answer_line({"host": target, "port": port, "local": opened})
            return
        terminal.console.print(f"127.0.0.1:{opened} leads to port {port} of {target}", markup=False)
        if not options.quiet:
            terminal.hint("Ctrl-C ends it")

    forwards.run(yard, target, port, local, ready, terminal.note)


def ports_of(text: str) -> tuple[int, int]:
    """`6006`, `6006:16006`, `6006:0`."""
    found = PORTS.fullmatch(text)
    port, local = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 0 < port <= MOST or local > MOST:
        raise typer.BadParameter(f"ports are like 6006 or 6006:16006, up to {MOST}, not {text!r}")
    return port, local


def host_of(yard: Yard, word: str) -> str:
    """The instance that is meant. Raises HostNotFound of a run that has none now."""
    from trainyard.cli import runs
    from trainyard.client.errors import HostNotFound

    if word.startswith("i-"):
        return word
    run = runs.find(yard, word)
    up = [host for host in run.status().hosts if host.state == "running"]
    if not up:
        raise HostNotFound(
            f"{run.id} has no host that runs",
            "it waits, is over, or its hosts are booting",
            command_line("show", run.id),
        )
    last = max(host.attempt for host in up)
    return next(host.instance for host in up if host.attempt == last)


def _tell(sentence: str) -> None:
    """In a terminal whose lines are the host's."""
    sys.stderr.write(f"\r\ntrainyard: {sentence}\r\n")
    sys.stderr.flush()
