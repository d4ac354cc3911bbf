"""Requests of users to the yard. Each request is an event under the user's own name."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, get_args

from trainyard.values import serialization
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Save and stop a run."""

    detail_type: ClassVar[str] = "stop"
    run: str


@dataclass(frozen=True, kw_only=True)
class EndWarmHosts:
    """End the warm hosts that a run keeps."""

    detail_type: ClassVar[str] = "end-warm-hosts"
    run: str


@dataclass(frozen=True, kw_only=True)
class DevHost:
    """Bring a dev host up, or make an image of it."""

    detail_type: ClassVar[str] = "dev"
    run: str
    """The id of the execution that this request starts. It begins with `dev-NAME-`."""
    name: str
    want: str
    """`up`, or `image`, after which the host ends."""
    request: Mapping[str, Any] = field(default_factory=dict, metadata={"formerly": "asked"})
    """The input of the dev-host workflow, for `up`."""


Request = Stop | EndWarmHosts | DevHost
REQUESTS: Mapping[str, type[Request]] = {each.detail_type: each for each in get_args(Request)}
"""The requests by the event's `detail-type`."""


def decode(word: str, detail: object) -> Request | str:
    """Return the request, or the fault of the detail."""
    kind = REQUESTS.get(word)
    if kind is None:
        return f"{word!r:.40} is not a request of this version"
    return "; ".join(serialization.faults(kind, detail)) or serialization.from_json(kind, dict(detail))  # type: ignore[call-overload]
