"""Open a shell on a host, or run a command there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from trainyard.cli.arguments import Host, Line
from trainyard.cli.command import command
from trainyard.cli.hosts import host_of
from trainyard.cli.options import Options

if TYPE_CHECKING:
    from trainyard.client import Yard


@command("trainyard shell i-0123456789abcdef0", "trainyard shell @last -- nvidia-smi -q -d POWER")
def shell(
    options: Options,
    host: Host,
    line: Line = None,
) -> None:
    """Open a shell on a host, or run a command there.

    Uses Session Manager without its plugin; no port of the host is open. A lost connection is restored without loss of
    output. Type Enter, ~ and a full stop to leave a shell that does not answer.
    """
    yard = options.find()
    enter(yard, host_of(yard, host), line)


def enter(yard: Yard, target: str, line: Sequence[str] | None) -> None:
    """Open a shell on the instance `target`, or run the command `line` there and exit with its code."""
    from trainyard.client.sessions import shell as shells

    if line:
        raise typer.Exit(shells.run_command(yard, target, line, _on_step))
    shells.run(yard, target, _on_step)


def _on_step(sentence: str) -> None:
    """Print a sentence in a terminal in raw mode."""
    sys.stderr.write(f"\r\ntrainyard: {sentence}\r\n")
    sys.stderr.flush()
