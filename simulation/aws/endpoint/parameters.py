"""Checks of requests: unknown parameters are refused, so that none is ignored silently."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from simulation.aws.endpoint.api import Answer, ServiceError

LAST = chr(0x10FFFF)
"""A character that sorts after every other character of a key."""


def not_simulated(what: str) -> ServiceError:
    return ServiceError("NotSimulated", f"the simulator does not model {what}")


def with_token(answer: Answer, token: str | None) -> Answer:
    return {**answer, "NextToken": token} if token else answer


def only(request: Mapping[str, Any], known: Collection[str], of: str) -> None:
    """Raise NotSimulated for a parameter that is not in `known`."""
    for name in request:
        if name not in known:
            raise not_simulated(f"{of} with {name}")
