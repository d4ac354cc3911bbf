"""Connections that become something else than HTTP: who takes which, by the beginning of its path."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote


@dataclass(frozen=True)
class Upgrade:
    """What a client asks for. `headers` by their names in lower case."""

    path: str
    query: str
    raw_headers: Sequence[tuple[bytes, bytes]]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Refusal:
    """What is answered instead."""

    status: int
    message: str


class Taker(Protocol):
    """Who takes them. Both are called in a thread."""

    def refusal(self, upgrade: Upgrade) -> Refusal | None:
        """Why it is not to be, or None."""

    def take(self, upgrade: Upgrade, opening: str, connection: socket.socket, begun: bytes) -> bool:
        """The client's first text, its connection, and what has come of the message after it. False: not with that
        text; the connection is the caller's then."""


takers: dict[str, Taker] = {}
"""By the beginning of the path."""


def taker(path: str) -> Taker | None:
    return next((found for prefix, found in takers.items() if path.startswith(prefix)), None)


def parse(head: bytes) -> Upgrade | None:
    """From a request up to its empty line; None where it is not for a WebSocket, or cannot be read."""
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
