"""What the server tells a session of itself, and how a session ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Order:
    """What the session is."""

    session: str
    target: str
    agent_version: str
    kind: str
    properties: Mapping[str, Any]
    run_as: str
    profile: str

    @property
    def shell(self) -> Mapping[str, Any]:
        """Of the properties those of a command on Linux."""
        found = self.properties.get("linux")
        return found if isinstance(found, dict) else {}


class SessionOver(Exception):  # noqa: N818 - as an end, not an error
    """With what there is to say of it."""
