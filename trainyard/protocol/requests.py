"""Requests: what people ask of the yard, by an event in their own name."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, get_args

from trainyard.values import serialization
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Save and stop a run."""

    word: ClassVar[str] = "stop"
    run: str


@dataclass(frozen=True, kw_only=True)
class Cool:
    """End the warm hosts that a run keeps."""

    word: ClassVar[str] = "cool"
    run: str


@dataclass(frozen=True, kw_only=True)
class DevHost:
    """Bring a dev host up, or make an image of it."""

    word: ClassVar[str] = "dev"
    run: str
    """Id of the execution of launch or snapshot that this starts; begins with `dev-NAME-`."""
    name: str
    want: str
    """`up`, or `image`, after which the host ends."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """What an input of launch may have, for `up`."""


Request = Stop | Cool | DevHost
REQUESTS: Mapping[str, type[Request]] = {each.word: each for each in get_args(Request)}
"""By the event's `detail-type`."""


def decode(word: str, detail: object) -> Request | str:
    """Return the request, or why the detail is none."""
    kind = REQUESTS.get(word)
    if kind is None:
        return f"{word!r:.40} is no request that this version knows"
    return "; ".join(serialization.faults(kind, detail)) or serialization.from_json(kind, dict(detail))  # type: ignore[call-overload]
