"""What a model understands of a request: the rest is refused, so that nothing is left out in silence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from simulation.aws.door.api import ServiceError

LAST = chr(0x10FFFF)
"""Sorts behind every other character of a key."""


def not_simulated(what: str) -> ServiceError:
    return ServiceError("NotSimulated", f"the simulator does not know {what}")


def only(request: Mapping[str, Any], known: Collection[str], of: str) -> None:
    """Raises NotSimulated for a parameter that is not among the `known`."""
    for name in request:
        if name not in known:
            raise not_simulated(f"{of} with {name}")
