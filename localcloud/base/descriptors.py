"""Limit of open files, pipes and connections of the server."""

from __future__ import annotations

import resource

NEEDED = 1024
"""Enough for a yard's functions and about 200 hosts. An ordinary login allows as many."""


def raise_limit() -> None:
    """Raise the soft limit to the hard limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def shortage(needed: int = NEEDED) -> str | None:
    """Return the problem and its remedy if the hard limit is too low, or None."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or hard >= needed:
        return None
    return (
        f"The local cloud may open {hard} files and connections at once and needs {needed} with many hosts: calls "
        f"and launches will then fail (Too many open files). Before `up`, type "
        f"`sudo prlimit --pid $$ --nofile={needed}:{needed}`."
    )
