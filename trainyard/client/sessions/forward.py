"""A port of a host, forwarded to this computer."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterable

from trainyard.client.deployment import Deployment
from trainyard.client.errors import NotHere, SessionRefused
from trainyard.client.sessions import opening
from trainyard.client.sessions.ending import ENDS, terminate_afterwards
from trainyard.client.sessions.link import Link, OnStep
from trainyard.command_line import command_line
from trainyard.datachannel.forwarding import Streams
from trainyard.datachannel.handshake import LOCAL_FORWARDING, is_newer
from trainyard.datachannel.message import Flag, Kind

LOOPBACK = "127.0.0.1"
MULTIPLEXED_AFTER = "3.0.196.0"
"""Agents after this version carry several connections."""


def run(
    yard: Deployment, host: str, port: int, local: int, ready: Callable[[int], None], on_step: OnStep
) -> None:
    """Forward connections from `local` (0 for any free port) of this computer's loopback interface to `port` of the
    host, until a signal comes or the session ends.

    `ready` is called with the open port, `on_step` with sentences for the user. Raise HostNotFound, HostNotConnected,
    Denied, NotHere if the port is in use, or SessionOver.
    """
    listening = listen(local)
    with listening:
        link = Link(yard.session, begin(yard, host, port, local), on_step)
        asyncio.run(carry(link, listening, port, ready, on_step))


def begin(
    yard: Deployment, host: str, port: int, local: int, document: str = opening.PORT_FORWARDING
) -> opening.Opened:
    """Start a session for a port of the host, by an SSM document for ports."""
    parameters = {"portNumber": [str(port)], "localPortNumber": [str(local)]}
    return opening.start(yard, host, document, parameters, "trainyard forward")


def listen(port: int) -> socket.socket:
    """Listen on the loopback interface only. Raise NotHere if the port is in use."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except OSError as error:
        listening.close()
        raise NotHere(
            f"port {port} of this computer is not free",
            str(error.strerror or error),
            "name another one behind a colon, as in 6006:16006, or 6006:0 for any that is free",
        ) from error
    return listening


async def carry(
    link: Link,
    listening: socket.socket,
    port: int,
    ready: Callable[[int], None],
    on_step: OnStep,
    signals: Iterable[signal.Signals] = ENDS,
) -> None:
    """Forward connections through a session until one of the signals comes or the session ends."""
    async with terminate_afterwards(link, signals), link.run_channel() as channel:
        streams = Streams(channel)
        server: asyncio.Server | None = None
        try:
            async for kind, payload in link.payloads():
                if kind == Kind.HANDSHAKE_COMPLETE:
                    check(link)
                    server = await asyncio.get_running_loop().create_server(streams.accept, sock=listening)
                    ready(int(listening.getsockname()[1]))
                elif kind == Kind.OUTPUT:
                    await streams.handle(payload)
                elif kind == Kind.FLAG and payload == Flag.CONNECT_TO_PORT_ERROR.payload:
                    on_step(f"nothing answers on port {port} of {link.opened.target}")
        finally:
            if server is not None:
                server.close()
            streams.close()
        if channel.closed is not None:
            raise opening.session_over(link.opened, channel.closed.output or "it was ended from outside")


def check(link: Link) -> None:
    """Raise SessionRefused if the host's agent forwards no port, or only one connection at a time."""
    asked = link.request
    if asked is None or asked.properties.get("type") != LOCAL_FORWARDING:
        raise SessionRefused(
            f"{link.opened.target} did not forward the port",
            "its agent sent an unexpected answer",
            "bake a newer image",
        )
    if not is_newer(asked.agent_version, MULTIPLEXED_AFTER):
        raise SessionRefused(
            f"the SSM agent of {link.opened.target} is {asked.agent_version}",
            f"one after {MULTIPLEXED_AFTER} is needed to forward a port",
            command_line("image", "bake"),
        )
