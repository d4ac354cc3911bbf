"""Connections that switch from HTTP to WebSocket, dispatched by the prefix of the path."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote


@dataclass(frozen=True)
class Upgrade:
    """A request for a WebSocket. The names in `headers` are in lower case."""

    path: str
    query: str
    raw_headers: Sequence[tuple[bytes, bytes]]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Refusal:
    """An HTTP answer that rejects the upgrade."""

    status: int
    message: str


class UpgradeHandler(Protocol):
    """A handler of WebSocket connections. Both methods run in a thread."""

    def refusal(self, upgrade: Upgrade) -> Refusal | None:
        """Return why the upgrade is rejected, or None."""

    def take(self, upgrade: Upgrade, opening: str, connection: socket.socket, begun: bytes) -> bool:
        """Take over the connection after the client's first text; `begun` are bytes received after it.

        Return False to reject the text. The caller then keeps the connection.
        """


upgrade_handlers: dict[str, UpgradeHandler] = {}
"""Handlers by path prefix."""


def handler_of(path: str) -> UpgradeHandler | None:
    return next((found for prefix, found in upgrade_handlers.items() if path.startswith(prefix)), None)


def parse(head: bytes) -> Upgrade | None:
    """Parse a request head. Return None if it is malformed or does not ask for a WebSocket."""
    try:
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _version = first.split(" ")
        pairs = [tuple(line.split(":", 1)) for line in lines if line]
        raw = [
            (name.strip().lower().encode("latin-1"), value.strip().encode("latin-1")) for name, value in pairs
        ]
    except ValueError:
        return None
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
    path, _, query = target.partition("?")
    is_one = method == "GET" and headers.get("upgrade", "").lower() == "websocket"
    return (
        Upgrade(unquote(path), query, raw, headers) if is_one and headers.get("sec-websocket-key") else None
    )
