"""The connections of the endpoint's clients: each ends once its client has gone, or does not go on with its request.

hypercorn lets a connection that its client has closed lie (CLOSE-WAIT) until a quiet one's time is over, waits for the
rest of a request without end, and never notices a client whose machine has vanished.
"""

from __future__ import annotations

import asyncio
import socket

import h11
from hypercorn.asyncio.tcp_server import MAX_RECV, TCPServer
from hypercorn.events import Closed, RawData

from localcloud.patches import HYPERCORN

IDLE_SECONDS = 75
"""How long a connection is kept on which nothing is asked, and how long the rest of a request is waited for."""
VANISHED = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_SECONDS),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 2 * IDLE_SECONDS * 1000),
)
"""With these the kernel ends the connection of a client that no packet reaches any more, such as a cut host."""


class Connection(TCPServer):
    """One client's. What it asked before it went is still done, and answered if it listens."""

    _is_read = True

    async def run(self) -> None:
        """Until nothing is to be read, and all that was asked is done."""
        for option in VANISHED:
            self.writer.get_extra_info("socket").setsockopt(*option)
        await super().run()

    async def _read_data(self) -> None:
        while not self.reader.at_eof():
            try:
                data = await asyncio.wait_for(self.reader.read(MAX_RECV), self._patience())
            except (OSError, TimeoutError):
                break
            await self.protocol.handle(RawData(data))
        self._is_read = False
        await self.idle_task.stop()
        await self.protocol.handle(Closed())

    async def _idle_timeout(self) -> None:
        if self._is_read:  # else nobody would end the wait when the last answer is given
            await super()._idle_timeout()

    def _patience(self) -> float | None:
        """None between requests, where hypercorn watches the time, and while one is answered."""
        connection = getattr(self.protocol.protocol, "connection", None)
        return IDLE_SECONDS if getattr(connection, "their_state", None) is h11.SEND_BODY else None


def install() -> None:
    """Before hypercorn serves."""
    HYPERCORN.replace("asyncio.run:TCPServer", Connection)
