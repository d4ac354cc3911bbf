"""The page's server on this computer."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from trainyard.client import Yard
from trainyard.client.errors import NotHere
from trainyard.command_line import command_line
from trainyard.ui.app import app
from trainyard.ui.templating import Templates

LOOPBACK = "127.0.0.1"
PORT = 8780


class Ending(uvicorn.Server):
    """A server that ends its event streams before it stops."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event) -> None:
        super().__init__(config)
        self._closing = closing

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._closing.set()
        super().handle_exit(sig, frame)


def serve(find: Callable[[], Yard], yard: Yard, port: int | None, ready: Callable[[str, str], None]) -> None:
    """Serve the page of the yard until Ctrl-C.

    `find` returns the yard with a new session, for each thread. Once the port is open, `ready` receives the address of
    the page, and an address that works once and is safe on a command line. Raises NotHere if the port is taken.
    """
    listening = listen(port)
    port = int(listening.getsockname()[1])
    token, once, closing = secrets.token_urlsafe(32), secrets.token_urlsafe(32), asyncio.Event()
    templates = Templates(yard.name, f"{yard.account} · {yard.session.region}")
    config = uvicorn.Config(
        app(find, templates, token, port, closing, (once,)),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,
        ws="none",
    )
    ready(*(f"http://{LOOPBACK}:{port}/#token={each}" for each in (token, once)))
    Ending(config, closing).run(sockets=[listening])


def listen(port: int | None) -> socket.socket:
    """Listen on 127.0.0.1: at `port`, or at the default port, or at a free one. Raises NotHere."""
    for each in (port,) if port is not None else (PORT, 0):
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((LOOPBACK, each))
        except OSError as error:
            listening.close()
            trouble = error
            continue
        listening.listen()
        return listening
    raise NotHere(
        f"the page cannot use port {port} of {LOOPBACK} ({trouble.strerror})",
        "another program listens there",
        f"{command_line('ui')} without --port takes a free port",
    ) from trouble
