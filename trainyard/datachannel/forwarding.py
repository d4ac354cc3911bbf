"""TCP connections through a session's data channel: each is a stream of smux.

After one side has ended its writing (END), the other side can still send. A second END closes the connection in both
directions. The public ends use one END for both directions and ignore the second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from trainyard.datachannel import smux
from trainyard.datachannel.channel import Channel
from trainyard.datachannel.message import Flag, Kind
from trainyard.datachannel.smux import Command, Frame

MOST_BUFFERED = 8 << 20
"""The bytes that connections have not sent on, above which the channel is not read, as in smux 1."""
MOST_GONE = 1000
Reach = Callable[[Callable[[], asyncio.Protocol]], Awaitable[object]]
"""Connects a protocol to the destination of the forward. Raises OSError."""


class Streams:
    """All connections of a session. With `reach`, the other end opens them and this end connects them to the
    destination."""

    def __init__(self, channel: Channel, reach: Reach | None = None) -> None:
        self._channel = channel
        self._reach = reach
        self._parser = smux.Parser()
        self._open: dict[int, Connection] = {}
        self._gone: dict[int, None] = {}
        self._next = 1
        self._room = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.refused = 0
        """The number of connections for which the other end could not reach the destination."""

    def accept(self) -> Connection:
        """Return the protocol of a connection that was accepted on this side."""
        connection = Connection(self, self._next)
        self._next += 2
        return connection

    @property
    def count(self) -> int:
        return len(self._open)

    async def handle(self, payload: bytes) -> None:
        """Handle a payload of the other end. Return when there is room for more. Raise SmuxError for invalid bytes."""
        for frame in self._parser.feed(payload):
            self._handle(frame)
        while self._buffered() > MOST_BUFFERED:
            self._room.clear()
            await self._room.wait()

    def close(self) -> None:
        """Abort every connection at the end of the session."""
        for connection in list(self._open.values()):
            connection.abort()
        for task in self._tasks:
            task.cancel()

    def _handle(self, frame: Frame) -> None:
        connection = self._open.get(frame.stream)
        if frame.command == Command.OPEN and self._reach is not None and connection is None:
            self._start(Connection(self, frame.stream, opened_there=True))
        elif frame.command == Command.DATA and connection is None:
            self._reject(frame.stream)
        elif frame.command == Command.DATA and connection is not None:
            connection.deliver(frame.data)
        elif frame.command == Command.END and connection is not None:
            connection.ended_there()

    def _start(self, connection: Connection) -> None:
        self._open[connection.number] = connection
        task = asyncio.ensure_future(self._connect(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, connection: Connection) -> None:
        assert self._reach is not None
        try:
            await self._reach(lambda: connection)
        except OSError:
            self._channel.write(Kind.FLAG, Flag.CONNECT_TO_PORT_ERROR.payload)
            connection.connection_lost(None)

    def _reject(self, stream: int) -> None:
        """Send END once for a stream that is gone, although more of its data may arrive."""
        if stream not in self._gone:
            self._gone[stream] = None
            self.send(Command.END, stream)
            while len(self._gone) > MOST_GONE:
                self._gone.pop(next(iter(self._gone)))

    def _buffered(self) -> int:
        return sum(connection.buffered for connection in self._open.values())

    # --- for connections ---

    def opened(self, connection: Connection) -> None:
        self._open[connection.number] = connection
        self.send(Command.OPEN, connection.number)

    def send(self, command: Command, stream: int) -> None:
        self._channel.write(Kind.OUTPUT, Frame(command, stream).encode())

    def data(self, connection: Connection, data: bytes) -> None:
        self._channel.write(Kind.OUTPUT, smux.frames(connection.number, data))
        if self._channel.is_full and connection.pause():
            self._channel.call_when_not_full(connection.resume)

    def drained(self) -> None:
        self._room.set()

    def lost(self, connection: Connection) -> None:
        self._open.pop(connection.number, None)
        self._room.set()


class Connection(asyncio.Protocol):
    """This side of one forwarded connection."""

    def __init__(self, streams: Streams, number: int, *, opened_there: bool = False) -> None:
        self.number = number
        self._streams = streams
        self._opened_there = opened_there
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._ended_here = 0
        self._ended_there = 0
        self._is_lost = False

    @property
    def buffered(self) -> int:
        early = sum(map(len, self._early))
        return early + (self._transport.get_write_buffer_size() if self._transport else 0)

    # --- what happens here ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._ended_there > 1:
            transport.abort()
            return
        if not self._opened_there:
            self._streams.opened(self)
        early, self._early = self._early, []
        transport.writelines(early)
        self._streams.drained()
        if self._ended_there:
            self._end_writing()

    def data_received(self, data: bytes) -> None:
        self._streams.data(self, data)

    def eof_received(self) -> bool:
        self._end_here(1)
        self._close_when_both()
        return True

    def resume_writing(self) -> None:
        self._streams.drained()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._end_here(1 if self._ended_there else 2)
            self._streams.lost(self)

    def pause(self) -> bool:
        """Stop reading until `resume`. Return True if the connection was reading."""
        if self._transport is None or not self._transport.is_reading():
            return False
        self._transport.pause_reading()
        return True

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # --- what the other end says ---

    def deliver(self, data: bytes) -> None:
        if self._transport is None:
            self._early.append(data)
        else:
            self._transport.write(data)

    def ended_there(self) -> None:
        self._ended_there += 1
        if self._ended_there > 1:
            self.abort()
        elif self._transport is not None:
            self._end_writing()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- inside ---

    def _end_here(self, times: int) -> None:
        while self._ended_here < times:
            self._ended_here += 1
            self._streams.send(Command.END, self.number)

    def _end_writing(self) -> None:
        assert self._transport is not None
        if self._ended_here:
            self._transport.close()
        elif not self._transport.is_closing():
            try:
                self._transport.write_eof()
            except OSError:  # The connection was reset, and the event loop has not reported it yet.
                self._transport.abort()

    def _close_when_both(self) -> None:
        if self._ended_there and self._transport is not None:
            self._transport.close()
