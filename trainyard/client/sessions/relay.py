"""One connection to a port of a host through standard input and output, as a proxy for ssh."""

from __future__ import annotations

import asyncio
import os
import sys

from trainyard.client.deployment import Deployment
from trainyard.client.errors import SessionRefused
from trainyard.client.sessions import opening
from trainyard.client.sessions.ending import terminate_afterwards
from trainyard.client.sessions.link import Link, OnStep
from trainyard.datachannel.channel import Channel
from trainyard.datachannel.message import Kind

READ = 1 << 16
LAST_SECONDS = 5
"""The longest wait in seconds for the last input to arrive."""


def run(yard: Deployment, host: str, port: int, on_step: OnStep) -> None:
    """Copy standard input to the port and its output to standard output until either ends. Raise HostNotFound,
    HostNotConnected, Denied, SessionOver, or SessionRefused if no program listens on the port."""
    asked = {"portNumber": [str(port)]}
    opened = opening.start(yard, host, opening.SSH, asked, "trainyard dev ssh")
    asyncio.run(_carry(Link(yard.session, opened, on_step), port))


async def _carry(link: Link, port: int) -> None:
    async with terminate_afterwards(link), link.run_channel() as channel:
        shaken = asyncio.Event()
        tasks = [asyncio.ensure_future(_send(channel, shaken)), asyncio.ensure_future(_show(link, shaken))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if channel.closed is not None and channel.closed.output:
            raise SessionRefused(
                f"the connection to port {port} of {link.opened.target} has ended",
                channel.closed.output.rstrip("."),
                "run this command again; list the listening ports: ss -ltn, in a shell of the host",
            )


async def _send(channel: Channel, shaken: asyncio.Event) -> None:
    """Send the input once the host's agent is ready, and wait while the channel is full."""
    loop, typed = asyncio.get_running_loop(), asyncio.StreamReader()
    way, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(typed), sys.stdin)
    try:
        await shaken.wait()
        while data := await typed.read(READ):
            channel.write(Kind.OUTPUT, data)
            if channel.is_full:
                room = asyncio.Event()
                channel.call_when_not_full(room.set)
                await room.wait()
        await channel.wait_until_idle(LAST_SECONDS)
    finally:
        way.close()


async def _show(link: Link, shaken: asyncio.Event) -> None:
    async for kind, payload in link.payloads():
        if kind == Kind.HANDSHAKE_COMPLETE:
            shaken.set()
        elif kind == Kind.OUTPUT:
            data = payload
            while data:
                data = data[await asyncio.to_thread(os.write, 1, data) :]
