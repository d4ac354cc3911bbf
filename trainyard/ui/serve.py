"""The page as a server on this computer, until somebody ends it."""

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
    """Tells what is streamed that the command ends, so that nothing is cut off."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event) -> None:
        super().__init__(config)
        self._closing = closing

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._closing.set()
        super().handle_exit(sig, frame)


def serve(find: Callable[[], Yard], yard: Yard, port: int | None, ready: Callable[[str, str], None]) -> None:
    """Serve the page of the yard, which `find` finds anew for each thread, until Ctrl-C; once somebody who opens it is
    answered, `ready` is given its address, and one that is good once, for a command line. Raises NotHere where the port
    is taken."""
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
    """On loopback alone: at that port, else at the usual one or, where this is taken, at any. Connections wait from now
    on. Raises NotHere."""
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
        f"nothing can be served at port {port} of {LOOPBACK} ({trouble.strerror})",
        "something else listens there",
        f"{command_line('ui')} without --port takes one that is free",
    ) from trouble
