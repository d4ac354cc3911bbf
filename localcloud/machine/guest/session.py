"""The SSM agent's part of a session, inside the host: a shell, a command or a port, and the channel to the client.

The server starts it for each session as root, with a socket at descriptor 3. Over this socket it passes the connections
of the client, one after another, because the channel outlives them. Events are reported there, too.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from localcloud.machine.guest import websocket
from localcloud.machine.guest.processes import CONTROL
from localcloud.machine.guest.session_order import Order, SessionOver
from localcloud.machine.guest.session_programs import FINAL_OUTPUT_SECONDS, READ, Programs
from trainyard.datachannel import handshake, message
from trainyard.datachannel.channel import LARGE, Channel, running
from trainyard.datachannel.handshake import Complete, Request, Response
from trainyard.datachannel.message import ChannelClosed, Kind, MessageError

PROCESS = "ssm-session-worker"
"""Name of the process, as far as the kernel has room for it."""
BUFFER = 1 << 20


class Connection:
    """A WebSocket to the client."""

    def __init__(self, writer: asyncio.StreamWriter, go: asyncio.Event) -> None:
        self._writer = writer
        self._go = go

    async def send(self, data: bytes) -> None:
        await self.say(websocket.BINARY, data)

    async def say(self, opcode: int, data: bytes) -> None:
        await self._go.wait()
        self._writer.write(websocket.encode(opcode, data))
        await self._writer.drain()
        if self._writer.is_closing():
            raise ConnectionResetError

    def close(self) -> None:
        self._writer.transport.abort()


@dataclass
class Session:
    control: socket.socket
    order: Order
    channel: Channel = field(default_factory=lambda: Channel(message.OUTPUT))
    client_version: str = "0"

    def __post_init__(self) -> None:
        self._go = asyncio.Event()
        self._go.set()
        self._connection: Connection | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reported = 0.0

    async def run(self) -> None:
        """Run until the session ends, then report the reason to the client and the server."""
        loop = asyncio.get_running_loop()
        self.control.setblocking(False)
        loop.add_reader(self.control, self._handle_orders)
        loop.add_signal_handler(signal.SIGTERM, self._end, "the instance is going down")
        async with running(self.channel):
            work = asyncio.ensure_future(self._work())
            self._keep(self._report_activity())
            waited: list[asyncio.Future[Any]] = [work, self._over]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            why = self._over.result() if self._over.done() else ""
            work.cancel()
            try:
                await work
            except asyncio.CancelledError:
                pass  # the session was ended from outside
            except SessionOver as end:
                why = str(end)
            await self.channel.wait_until_idle(FINAL_OUTPUT_SECONDS)
            closed = ChannelClosed(self.order.session, why, self.order.target)
            self.channel.post(closed.message(uuid4(), int(time.time() * 1000)))
            await self.channel.flush(FINAL_OUTPUT_SECONDS)
        self._send_event(event="ended", reason=why)

    # --- orders of the server ---

    def _handle_orders(self) -> None:
        """Handle orders of the server. The session ends if the server is gone."""
        data, files, _, _ = socket.recv_fds(self.control, READ, 2)
        if not data:
            self._end("the connection to Systems Manager closed")
            return
        order = json.loads(data)
        match order["op"]:
            case "attach":
                with open(files[1], "rb") as begun:  # noqa: PTH123 - a descriptor
                    self._keep(self._attach(socket.socket(fileno=files[0]), begun.read()))
            case "hold":
                self._go.clear()
            case "go":
                self._go.set()
            case "terminate":
                self._end(order["reason"])

    def _end(self, why: str) -> None:
        if not self._over.done():
            self._over.set_result(why)

    def _send_event(self, **event: Any) -> None:
        try:
            self.control.send(json.dumps(event).encode())
        except OSError:
            self._end("the connection to Systems Manager closed")

    async def _report_activity(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            if self.channel.active > self._reported:
                self._reported = self.channel.active
                self._send_event(event="active")

    def _keep(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- connections of the client ---

    async def _attach(self, given: socket.socket, begun: bytes) -> None:
        given.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader, writer = await asyncio.open_connection(sock=given, limit=BUFFER)
        writer.transport.set_write_buffer_limits(BUFFER)
        connection = Connection(writer, self._go)
        before, self._connection = self._connection, connection
        if before is not None:
            before.close()
        self._send_event(event="connected")
        attaching = asyncio.ensure_future(self.channel.attach(connection))
        try:
            await self._read(reader, connection, websocket.Parser(begun))
        except (ConnectionError, websocket.WebSocketError, MessageError) as error:
            print(f"the client's connection ends: {error!r}", file=sys.stderr, flush=True)
        finally:
            attaching.cancel()
            self.channel.detach(connection)
            connection.close()
            if self._connection is connection:
                self._send_event(event="disconnected")

    async def _read(
        self, reader: asyncio.StreamReader, connection: Connection, parser: websocket.Parser
    ) -> None:
        data = b""
        while True:
            await self._go.wait()
            for opcode, payload in parser.feed(data):
                if opcode == websocket.CLOSE:
                    return
                if opcode == websocket.PING:
                    await connection.say(websocket.PONG, payload)
                elif opcode == websocket.BINARY:
                    await self.channel.take(payload)
            data = await reader.read(READ * 4)
            if not data:
                return

    # --- programs of the session ---

    async def _work(self) -> None:
        if self.order.kind == handshake.SHELL:
            await self._programs().terminal(["sh"], profile=self.order.profile)
            return
        await self._shake_hands()
        match self.order.kind:
            case handshake.INTERACTIVE:
                await self._programs().terminal(["sh", "-c", str(self.order.shell.get("commands", ""))])
            case handshake.NON_INTERACTIVE:
                await self._programs().command(str(self.order.shell.get("commands", "")))
            case _:
                await self._programs().port(int(self.order.properties["portNumber"]))

    def _programs(self) -> Programs:
        return Programs(self.order, self.channel, self.client_version)

    async def _shake_hands(self) -> None:
        began = time.monotonic_ns()
        order = self.order
        request = Request.for_session(order.agent_version, order.kind, order.properties, LARGE)
        self.channel.write(Kind.HANDSHAKE_REQUEST, request.payload())
        answered = await self._response()
        if answered.errors:
            raise SessionOver(f"Handshake failed: {', '.join(answered.errors)}")
        self.client_version = answered.client_version
        self.channel.write(Kind.HANDSHAKE_COMPLETE, Complete(time.monotonic_ns() - began).payload())
        self.channel.largest = answered.largest

    async def _response(self) -> Response:
        async for kind, payload in self.channel.payloads():
            if kind == Kind.HANDSHAKE_RESPONSE:
                try:
                    return handshake.response(payload)
                except MessageError as error:
                    raise SessionOver(f"Handshake failed: {error}") from error
        raise SessionOver("the client has gone")


async def follow(control: socket.socket, order: Order) -> None:
    await Session(control, order).run()


def main() -> None:
    control = socket.socket(fileno=CONTROL)
    control.set_inheritable(False)
    Path("/proc/self/comm").write_text(PROCESS)
    order = Order(**json.loads(control.recv(1 << 20)))
    asyncio.run(follow(control, order))
