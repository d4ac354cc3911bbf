"""How many files, pipes and connections the server may have open at once."""

from __future__ import annotations

import resource

NEEDED = 1024
"""Enough for a yard's functions and some 200 hosts; what an ordinary login gives."""


def raise_limit() -> None:
    """Take as many as this process may have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def shortage(needed: int = NEEDED) -> str | None:
    """What is wrong and what helps where not even that is enough; None: it is enough."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or hard >= needed:
        return None
    return (
        f"The local cloud may open {hard} files and connections at once and needs {needed} with many hosts: calls "
        f"and launches will then fail (Too many open files). Before `up`, type "
        f"`sudo prlimit --pid $$ --nofile={needed}:{needed}`."
    )
