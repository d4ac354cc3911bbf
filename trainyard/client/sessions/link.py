"""The client's connection to a session: a WebSocket, which is replaced when it breaks, until the session ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from trainyard.client import grants
from trainyard.client.errors import Denied, NoAnswer, SessionRefused, YardError
from trainyard.client.session import Session
from trainyard.client.sessions import opening
from trainyard.client.sessions.opening import CLIENT_VERSION, Opened
from trainyard.datachannel import handshake
from trainyard.datachannel.channel import LARGE, Channel, running
from trainyard.datachannel.handshake import ENCRYPTION, SESSION_TYPE, Request, Response
from trainyard.datachannel.message import INPUT, Kind, MessageError

PING_SECONDS, PONG_SECONDS = 4, 6
"""A lost network is detected after ten seconds."""
OPEN_SECONDS = 4
RETRY_SECONDS = 0.5
LAST_WORD_SECONDS = 3
BUFFER = 1 << 20
OnStep = Callable[[str], None]


class Connection:
    """A WebSocket as a connection of the channel."""

    def __init__(self, websocket: ClientConnection) -> None:
        self._websocket = websocket

    async def send(self, data: bytes) -> None:
        try:
            await self._websocket.send(data)
        except ConnectionClosed as error:
            raise ConnectionResetError(str(error)) from error


class Link:
    """The connection to one session. `on_step` is called with sentences for the user about interruptions."""

    def __init__(self, session: Session, opened: Opened, on_step: OnStep) -> None:
        self.channel = Channel(INPUT)
        self.request: Request | None = None
        """The agent's handshake request; None before it has arrived."""
        self.opened = opened
        self._session = session
        self._hasty = Session(session.boto, session.endpoint, patient=False)
        self._on_step = on_step
        self._cut_at: float | None = None

    @contextlib.asynccontextmanager
    async def run_channel(self) -> AsyncIterator[Channel]:
        """Run the channel with its connections inside the block. Errors end the block: Denied, NoAnswer or
        SessionRefused at the first connection, SessionOver when the session has ended."""
        async with running(self.channel):
            keeping = asyncio.ensure_future(self._keep())
            keeping.add_done_callback(lambda done: None if done.cancelled() else self.channel.close(None))
            try:
                yield self.channel
            finally:
                ended = keeping.done() and not keeping.cancelled()
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)
            if ended and (error := keeping.exception()) is not None:
                raise error

    async def payloads(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the payloads of the session and answer its handshake. Raise SessionRefused for an unsupported
        session."""
        async for kind, payload in self.channel.payloads():
            if kind == Kind.HANDSHAKE_REQUEST:
                self._answer(payload)
            elif kind != Kind.HANDSHAKE_COMPLETE:
                yield kind, payload
            elif self.request is not None:
                self.channel.largest = self.request.largest
                yield kind, payload

    async def terminate(self) -> None:
        """Terminate the session, if possible. Otherwise it ends when it has been idle for long enough."""
        with contextlib.suppress(YardError, ClientError, TimeoutError):
            async with asyncio.timeout(LAST_WORD_SECONDS):
                await asyncio.to_thread(opening.terminate, self._hasty, self.opened)

    # --- the handshake ---

    def _answer(self, payload: bytes) -> None:
        try:
            self.request = asked = handshake.request(payload)
        except MessageError as error:
            raise SessionRefused(
                "the host's agent sent an unexpected message", str(error), "aws ssm start-session"
            ) from error
        processed = {
            name: handshake.SUCCEEDED if name == SESSION_TYPE else handshake.UNSUPPORTED
            for name in asked.actions
        }
        errors = tuple(f"Unsupported action {name}" for name in asked.actions if name != SESSION_TYPE)
        self.channel.write(
            Kind.HANDSHAKE_RESPONSE, Response(CLIENT_VERSION, processed, errors, LARGE).payload()
        )
        if ENCRYPTION in asked.actions:
            raise SessionRefused(
                "the account encrypts its sessions with a KMS key",
                "this client does not support that",
                f"aws ssm start-session --target {self.opened.target} (with AWS's Session Manager plugin)",
            )

    # --- connections ---

    async def _keep(self) -> None:
        """Keep a connection until the session ends."""
        first = True
        while True:
            try:
                websocket = await self._connect()
                try:
                    await self._use_connection(websocket)
                finally:
                    await _close(websocket)
            except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
                if first:
                    raise self._handle_refusal(error) from error
            if self.channel.closed is not None:
                return
            first = False
            await self._find_again()

    async def _connect(self) -> ClientConnection:
        headers = opening.sign_headers(self._session, self.opened.url)
        host = headers.pop("Host", None)
        assert host is None, "the client says the host itself"
        return await connect(
            self.opened.url,
            additional_headers=headers,
            compression=None,
            max_size=None,
            max_queue=64,
            write_limit=BUFFER,
            open_timeout=OPEN_SECONDS,
            close_timeout=1,
            ping_interval=PING_SECONDS,
            ping_timeout=PONG_SECONDS,
        )

    async def _use_connection(self, websocket: ClientConnection) -> None:
        """Use this connection until it breaks or the session ends."""
        said = handshake.opening_text(str(uuid4()), self.opened.token, str(uuid4()), CLIENT_VERSION)
        await websocket.send(said)
        connection = Connection(websocket)
        attaching = asyncio.ensure_future(self.channel.attach(connection))
        try:
            async for data in websocket:
                if isinstance(data, bytes):
                    await self.channel.take(data)
                    self._is_back()
                if self.channel.closed is not None:
                    return
        except (ConnectionClosed, MessageError):
            return
        finally:
            attaching.cancel()
            self.channel.detach(connection)

    async def _find_again(self) -> None:
        """Get a new token, and retry until the network is back. Raise SessionOver."""
        loop = asyncio.get_running_loop()
        if self._cut_at is None:
            self._cut_at = loop.time()
        quiet = True
        while True:
            try:
                self.opened = await asyncio.to_thread(opening.resume, self._hasty, self.opened)
                return
            except NoAnswer:
                if quiet:
                    self._on_step("the connection is lost; trying until it is back")
                    quiet = False
                await asyncio.sleep(RETRY_SECONDS)

    def _is_back(self) -> None:
        if self._cut_at is not None:
            seconds = asyncio.get_running_loop().time() - self._cut_at
            self._cut_at = None
            if seconds > 1:
                self._on_step(f"the connection is back after {seconds:.0f} s")

    def _handle_refusal(self, error: Exception) -> Exception:
        where = self.opened.url.partition("?")[0]
        if isinstance(error, InvalidStatus):
            said: Any = error.response.body or b""
            text = bytes(said).decode("utf-8", "replace").strip()
            told, on = grants.ACTION.search(text), grants.RESOURCE.search(text)
            if error.response.status_code in (401, 403):
                action = told[1] if told else "ssmmessages:OpenDataChannel"
                advice = grants.advice(action, on[1] if on else "")
                return Denied(f"{action} was denied", text or "AWS gave no reason", advice)
            if error.response.status_code == 404:
                return opening.session_over(
                    self.opened, "it has ended before it began, as when its host goes"
                )
            return SessionRefused(
                f"{where} answers {error.response.status_code}", text or "and no more", "try again"
            )
        return NoAnswer(
            "the session's channel cannot be opened",
            f"{where}: {str(error).rstrip('.') or type(error).__name__}",
            "look at the network: a proxy or firewall must let WebSockets through",
        )


async def _close(websocket: ClientConnection) -> None:
    """Close the connection properly if there is time. Abort the transport in any case."""
    try:
        await websocket.close()
    finally:
        websocket.transport.abort()
