"""Which host is meant: an instance's id, or a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainyard.command_line import command_line

if TYPE_CHECKING:
    from trainyard.client import Yard


def host_of(yard: Yard, word: str) -> str:
    """Return the instance that the word means. Raises HostNotFound for a run without a host that runs."""
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
