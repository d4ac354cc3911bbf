"""Connections of the endpoint's clients. Each ends when its client has left or stops sending.

Without this module, hypercorn keeps a connection that its client closed (CLOSE-WAIT) until the idle timeout, waits
forever for the rest of a request, and never notices a client whose machine vanished.

A connection that becomes a WebSocket (`base.upgrades`: the data channel of a session) is handed over after the client's
first text. The server then no longer takes part.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from http import HTTPStatus
from typing import Any

import h11
from hypercorn.asyncio.tcp_server import MAX_RECV, TCPServer
from hypercorn.events import Closed, RawData

from localcloud.base import upgrades
from localcloud.base.upgrades import Upgrade, UpgradeHandler
from localcloud.machine.guest import websocket
from localcloud.patches import HYPERCORN
from localcloud.server import gate

log = logging.getLogger(__name__)

IDLE_SECONDS = 75
"""Timeout of an idle connection, and of the rest of a request."""
OPENING_SECONDS = 10
"""Timeout of a WebSocket's first text."""
LONGEST_HEAD = 1 << 16
VANISHED = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_SECONDS),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 2 * IDLE_SECONDS * 1000),
)
"""Socket options with which the kernel closes connections to unreachable clients, such as a disconnected host."""


NOT_THAT = (1008).to_bytes(2, "big") + b"not with that token"


class Connection(TCPServer):
    """The connection of one client. Requests that arrived before the client left are still answered."""

    _is_read = True
    _is_fresh = True

    async def run(self) -> None:
        """Serve until the client sends no more and all requests are answered."""
        for option in VANISHED:
            self.writer.get_extra_info("socket").setsockopt(*option)
        await super().run()

    async def _read_data(self) -> None:
        while not self.reader.at_eof():
            try:
                data = await asyncio.wait_for(self.reader.read(MAX_RECV), self._patience())
            except (OSError, TimeoutError):
                break
            if self._is_fresh and await self._hand_over(data):
                return
            self._is_fresh = False
            await self.protocol.handle(RawData(data))
        self._is_read = False
        await self.idle_task.stop()
        await self.protocol.handle(Closed())

    async def _hand_over(self, data: bytes) -> bool:
        """Return True if another handler took over the connection or refused it."""
        target = data.split(b" ", 2)[1:2]
        handler = (
            upgrades.handler_of(target[0].decode("latin-1")) if data.startswith(b"GET ") and target else None
        )
        if handler is None:
            return False
        await self.idle_task.stop()
        try:
            async with asyncio.timeout(OPENING_SECONDS):
                await self._give_away(handler, data)
        except (OSError, TimeoutError, websocket.WebSocketError, asyncio.IncompleteReadError) as error:
            log.info("a connection for %s came to nothing: %r", target[0][:100], error)
        self._is_read = False
        self.writer.transport.abort()  # closes only this process's reference
        await self.protocol.handle(Closed())
        return True

    async def _give_away(self, handler: UpgradeHandler, data: bytes) -> None:
        while b"\r\n\r\n" not in data and len(data) < LONGEST_HEAD:
            data += await self._more()
        head, _, begun = data.partition(b"\r\n\r\n")
        upgrade = upgrades.parse(head)
        if upgrade is None:
            await self._refuse(400, "this is for WebSockets")
            return
        if why := gate.refusal(upgrade.raw_headers):
            await self._refuse(403, why)
            return
        refusal = await asyncio.to_thread(handler.refusal, upgrade)
        if refusal is not None:
            await self._refuse(refusal.status, refusal.message)
            return
        await self._accept(upgrade)
        parser = websocket.Parser(begun)
        opening = await self._opening(parser)
        reader: Any = self.reader
        reader._transport.pause_reading()
        begun = parser.rest + bytes(reader._buffer)
        connection = self.writer.get_extra_info("socket").dup()
        if not await asyncio.to_thread(
            handler.take, upgrade, opening.decode("utf-8", "replace"), connection, begun
        ):
            connection.close()
            self.writer.write(websocket.encode(websocket.CLOSE, NOT_THAT))
            await self.writer.drain()

    async def _opening(self, parser: websocket.Parser) -> bytes:
        """Return the client's first text. AWS's plugin may send a ping before it, from another thread."""
        data = b""
        while True:
            for opcode, payload in parser.feed(data):
                match opcode:
                    case websocket.TEXT:
                        return payload
                    case websocket.PING:
                        self.writer.write(websocket.encode(websocket.PONG, payload))
                    case websocket.CLOSE:
                        raise ConnectionResetError("its client closes it")
            data = await self._more()

    async def _more(self) -> bytes:
        data = await self.reader.read(MAX_RECV)
        if not data:
            raise ConnectionResetError("its client has gone")
        return data

    async def _accept(self, upgrade: Upgrade) -> None:
        accepted = websocket.accept(upgrade.headers["sec-websocket-key"])
        lines = ("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade")
        answer = "\r\n".join((*lines, f"Sec-WebSocket-Accept: {accepted}", "", ""))
        self.writer.write(answer.encode())
        await self.writer.drain()

    async def _refuse(self, status: int, message: str) -> None:
        body = json.dumps({"message": message}).encode()
        reason = HTTPStatus(status).phrase
        head = (
            f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        )
        self.writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        await self.writer.drain()

    async def _idle_timeout(self) -> None:
        if self._is_read:  # otherwise the wait after the last answer never ends
            await super()._idle_timeout()

    def _patience(self) -> float | None:
        """Return the read timeout.

        It is None while a request is answered, and between requests, where hypercorn has its own.
        """
        connection = getattr(self.protocol.protocol, "connection", None)
        return IDLE_SECONDS if getattr(connection, "their_state", None) is h11.SEND_BODY else None


def install() -> None:
    """Install before hypercorn serves."""
    HYPERCORN.replace("asyncio.run:TCPServer", Connection)
