"""End of the endpoint's connections, from the client's view."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest
from hypercorn.asyncio import run, serve
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.config import Config

from localcloud.server import connections

HEAD = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\n"
BUSY_SECONDS = 0.3


async def echo(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[Any]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """Answer with the request's body after a delay."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message.get("body", b"")
        more = message.get("more_body", False)
    await asyncio.sleep(BUSY_SECONDS)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": body})


async def answer_to(request: bytes, *, then_closed: bool) -> bytes:
    """Return the server's output until it closes the connection, which must happen in time."""
    over, config = asyncio.Event(), Config()
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    config.bind = [f"fd://{listening.detach()}"]
    config.keep_alive_timeout = 600
    serving = asyncio.create_task(serve(echo, config, shutdown_trigger=over.wait))  # type: ignore[arg-type]
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    if then_closed:
        writer.write_eof()
    said = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    over.set()
    await serving
    return said


@pytest.mark.parametrize(
    ("request_", "then_closed", "answer"),
    [
        pytest.param(b"", True, b"", id="closed without a request"),
        pytest.param(HEAD, True, b"", id="closed within a request"),
        pytest.param(HEAD + b"body", True, b"body", id="closed after a request, which is answered"),
        pytest.param(HEAD + b"bo", False, b"", id="the rest of the request does not arrive"),
    ],
)
def test_a_connection_ends_when_its_client_has_gone_or_says_no_more(
    monkeypatch: pytest.MonkeyPatch, request_: bytes, then_closed: bool, answer: bytes
) -> None:
    monkeypatch.setattr(run, "TCPServer", TCPServer)
    monkeypatch.setattr(connections, "IDLE_SECONDS", 1)
    connections.install()
    said = asyncio.run(answer_to(request_, then_closed=then_closed))
    assert said.partition(b"\r\n\r\n")[2] == answer
