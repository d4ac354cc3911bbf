"""A server outside of AWS that receives webhooks. It answers in place of the network of lambdas/steps/http_post.py: the
look-up of its name, the connection and its TLS. The request that it reads is the one that the yard has written."""

from __future__ import annotations

import io
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.parser import BytesParser
from types import SimpleNamespace
from typing import Any

from lambdas.steps import http_post
from simulation.world.world import World

NAME, ADDRESS = "hooks.example.com", "93.184.215.14"
ANSWER = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True)
class Received:
    at: datetime
    headers: dict[str, str]
    """With names in lower case."""
    body: bytes


@dataclass
class Receiver:
    """The server. It is down for this time from the first request on."""

    outage: timedelta = timedelta()
    world: World | None = None
    received: list[Received] = field(default_factory=list)
    refused: list[datetime] = field(default_factory=list)
    """The times of requests during the outage."""

    @contextmanager
    def answers(self) -> Iterator[None]:
        """Stand in for the network of functions in this context."""
        sockets = SimpleNamespace(
            getaddrinfo=_look_up, create_connection=self._connect, SOCK_STREAM=socket.SOCK_STREAM
        )
        try:
            vars(http_post).update(socket=sockets, ssl=SimpleNamespace(create_default_context=_Tls))
            yield
        finally:
            vars(http_post).update(socket=socket, ssl=ssl)

    def _connect(self, address: tuple[str, int], _: float) -> _Connection:
        assert address == (ADDRESS, 443), f"{address} is not the receiver"
        assert self.world, "no simulated world is running"
        now = self.world.now
        if self.outage and now < (self.refused[0] if self.refused else now) + self.outage:
            self.refused.append(now)
            raise ConnectionRefusedError(111, "Connection refused")
        return _Connection(self, now)


def _look_up(name: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
    if name != NAME:
        raise socket.gaierror(-2, "Name or service not known")
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ADDRESS, port))]


class _Connection:
    """The part of a socket that http.client uses."""

    def __init__(self, receiver: Receiver, at: datetime) -> None:
        self._receiver, self._at = receiver, at
        self._sent = b""

    def settimeout(self, _: float) -> None:
        pass

    def sendall(self, data: bytes) -> None:
        self._sent += bytes(data)

    def makefile(self, _mode: str) -> io.BytesIO:
        """Read the whole request, then answer."""
        head, _, body = self._sent.partition(b"\r\n\r\n")
        line, _, rest = head.partition(b"\r\n")
        headers = {name.lower(): value for name, value in BytesParser().parsebytes(rest).items()}
        assert line.startswith(b"POST /"), line
        assert len(body) == int(headers["content-length"])
        self._receiver.received.append(Received(self._at, headers, body))
        return io.BytesIO(ANSWER)

    def close(self) -> None:
        pass


class _Tls:
    """The context of TLS, whose connections have the name of the server."""

    def wrap_socket(self, plain: _Connection, *, server_hostname: str) -> _Connection:
        assert server_hostname == NAME, server_hostname
        return plain
