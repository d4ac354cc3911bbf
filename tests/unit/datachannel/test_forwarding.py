"""A failing connection through a channel does not affect other connections."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trainyard.datachannel.channel import Channel
from trainyard.datachannel.forwarding import Streams
from trainyard.datachannel.message import INPUT
from trainyard.datachannel.smux import Command, Frame

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with RST on close, as from a killed browser."""


@asynccontextmanager
async def forwarded() -> AsyncIterator[tuple[Streams, socket.socket]]:
    """Open one connection and announce it to the other end."""
    streams = Streams(Channel(INPUT))
    server = await asyncio.get_running_loop().create_server(streams.accept, "127.0.0.1", 0)
    async with server:
        with socket.create_connection(server.sockets[0].getsockname()) as mine:
            while not streams.count:
                await asyncio.sleep(0)
            yield streams, mine
        streams.close()


def test_a_reset_connection_that_the_other_end_ends_at_the_same_time_ends_alone() -> None:
    async def story() -> int:
        async with forwarded() as (streams, mine):
            mine.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            mine.close()
            await streams.handle(Frame(Command.END, 1).encode())
            while streams.count:
                await asyncio.sleep(0)
            return streams.count

    assert asyncio.run(asyncio.wait_for(story(), 10)) == 0


def test_the_other_ends_end_leaves_this_sides_half_open() -> None:
    async def story() -> bytes:
        async with forwarded() as (streams, mine):
            await streams.handle(Frame(Command.END, 1).encode())
            mine.setblocking(False)
            received = await asyncio.get_running_loop().sock_recv(mine, 1)
            assert streams.count == 1
            return received

    assert asyncio.run(asyncio.wait_for(story(), 10)) == b""
