"""Find the host that the user names by its ID or by a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainyard.command_line import command_line

if TYPE_CHECKING:
    from trainyard.client import Yard


def host_of(yard: Yard, word: str) -> str:
    """Return the instance ID that `word` names. Raises HostNotFound for a run without a running host."""
    from trainyard.cli import runs
    from trainyard.client.errors import HostNotFound

    if word.startswith("i-"):
        return word
    run = runs.find(yard, word)
    up = [host for host in run.status().hosts if host.state == "running"]
    if not up:
        raise HostNotFound(
            f"{run.id} has no running host",
            "the run is waiting or has ended, or its hosts are starting",
            command_line("show", run.id),
        )
    last = max(host.attempt for host in up)
    return next(host.instance for host in up if host.attempt == last)
