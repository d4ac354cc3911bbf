"""A session as the server orders it, and its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Order:
    """The server's order for a session."""

    session: str
    target: str
    agent_version: str
    kind: str
    properties: Mapping[str, Any]
    run_as: str
    profile: str

    @property
    def shell(self) -> Mapping[str, Any]:
        """Return the properties that apply to a command on Linux."""
        found = self.properties.get("linux")
        return found if isinstance(found, dict) else {}


class SessionOver(Exception):  # noqa: N818 - as an end, not an error
    """Ends a session. Carries the reason for the client."""
