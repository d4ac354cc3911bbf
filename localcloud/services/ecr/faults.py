"""Faults of registries: refusals of a request, and layers that arrive broken or slowly."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from localcloud.base.injected import Injected

EVERY_IMAGE = "*"


class Kind(StrEnum):
    """The kinds of failures of a registry."""

    UNAUTHORIZED = "unauthorized"
    MISSING = "missing"
    BUSY = "busy"
    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    SLOW = "slow"


REFUSALS = {
    Kind.UNAUTHORIZED: (401, "UNAUTHORIZED", "authentication required"),
    Kind.MISSING: (404, "MANIFEST_UNKNOWN", "manifest unknown"),
    Kind.BUSY: (429, "TOOMANYREQUESTS", "You have reached your pull rate limit."),
}
"""Faults of every request for a manifest or a layer: status, code and message."""
OF_LAYERS = (Kind.TRUNCATED, Kind.CORRUPT, Kind.SLOW)


@dataclass(frozen=True)
class Fault:
    """A fault of the images whose name matches a pattern."""

    kind: Kind
    image: str


_injected: Injected[Fault] = Injected()


def inject(kind: Kind, image: str, times: int | None, seconds: float | None) -> None:
    """Fail the next requests for images, by `REGISTRY/REPOSITORY` with wildcards."""
    _injected.set(f"{kind} {image}", Fault(kind, image), times, seconds)


def take(image: str, *, is_layer: bool) -> Kind | None:
    """Return the fault of a request for an image and count it, or None."""
    for what, (fault, _) in _injected.active().items():
        fits = fnmatch.fnmatchcase(image, fault.image)
        if fits and (is_layer or fault.kind not in OF_LAYERS) and _injected.take(what):
            return fault.kind
    return None


def active() -> dict[str, Any]:
    """Return each fault with the number of requests that still fail (None: all)."""
    return {what: times for what, (_, times) in _injected.active().items()}


def clear() -> None:
    _injected.clear()
