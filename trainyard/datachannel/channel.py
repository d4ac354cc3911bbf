"""One end of a session's data channel: payloads in order, even if connections break.

A channel outlives its connections (`Wire`): data without an acknowledgement is sent again over the next connection. If
the reader of the channel is slow, acknowledgements are delayed, and finally reading stops, so that neither end holds
more than a few megabytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Protocol
from uuid import uuid4

from trainyard.datachannel import message as messages
from trainyard.datachannel.delivery import Incoming, Outgoing
from trainyard.datachannel.handshake import SMALL
from trainyard.datachannel.message import Acknowledgement, ChannelClosed, Kind, Message, MessageError

LARGE = 65536
"""The largest payload in bytes that these ends accept."""
PACE = 0.001
"""The pause in seconds between two messages to an end that accepts only small payloads, as in the public ends."""
WINDOW = 4 << 20
"""The most bytes that are sent without an acknowledgement."""
BACKLOG = 1 << 20
"""The bytes of unsent payloads above which a writer should wait."""
LATE, FULL = 4 << 20, 16 << 20
"""Bytes that arrived and are not read: above the first limit, acknowledgements stop; above the second, receiving stops.
"""
LOOK_SECONDS = 0.1


class Wire(Protocol):
    """One connection. `send` raises ConnectionError once the connection is broken."""

    async def send(self, data: bytes) -> None: ...


class Channel:
    """One end of a data channel in one event loop. `sends` is the type of its messages, INPUT or OUTPUT."""

    def __init__(self, sends: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self.largest = SMALL
        """The largest payload in bytes that the other end accepts."""
        self.closed: ChannelClosed | None = None
        """The message with which the other end closed the channel."""
        self.active = now()
        """When the last payload was sent or received."""
        self.received_at = now()
        """When the last message was received, including acknowledgements."""
        self._sends = sends
        self._receives = messages.OUTPUT if sends == messages.INPUT else messages.INPUT
        self._now = now
        self._wire: Wire | None = None
        self._paused = False
        self._over = False
        self._sequence = 0
        self._outgoing = Outgoing()
        self._incoming = Incoming()
        self._posted: deque[bytes] = deque()
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._backlog = 0
        self._received: deque[Message] = deque()
        self._held = 0
        self._unacknowledged: list[Message] = []
        self._order = asyncio.Lock()
        self._changed = asyncio.Event()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._on_room: list[Callable[[], None]] = []

    # --- sending ---

    def write(self, kind: int, data: bytes) -> None:
        """Queue a payload for sending. Large writers wait while `is_full`."""
        self._waiting.append((kind, data))
        self._backlog += len(data)
        self._changed.set()

    @property
    def is_full(self) -> bool:
        return self._backlog > BACKLOG

    def call_when_not_full(self, call: Callable[[], None]) -> None:
        """Call a function when the channel stops being full."""
        self._on_room.append(call)

    @property
    def is_idle(self) -> bool:
        """Return True if all that was written is acknowledged."""
        return not self._waiting and not self._outgoing.unacknowledged

    @property
    def oldest(self) -> float | None:
        """Return when the oldest unacknowledged message was last sent, or None if all are acknowledged."""
        return next((each.at for each in self._outgoing.unacknowledged.values()), None)

    async def wait_until_idle(self, seconds: float) -> bool:
        """Wait at most these seconds until the channel is idle, and return True if it is."""
        until = self._now() + seconds
        while not self.is_idle and self._now() < until and not self._over:
            await asyncio.sleep(0.01)
        return self.is_idle

    def post(self, message: Message) -> None:
        """Queue a message outside of the stream, ahead of the payloads, if there is a connection.

        The message is not sent at once, because a reader that calls this must not wait until the other end reads.
        """
        if self._wire is not None:
            self._posted.append(message.encode())
            self._changed.set()

    async def flush(self, seconds: float) -> None:
        """Wait at most these seconds until the messages outside of the stream are sent."""
        until = self._now() + seconds
        while self._posted and self._now() < until:
            await asyncio.sleep(0.01)
        async with self._order:
            return

    async def run(self) -> None:
        """Send payloads, and repeat those without an acknowledgement, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._send_forever())
            tasks.create_task(self._send_again_forever())

    async def _send_forever(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._posted or self._may_send():
                async with self._order:
                    await self._send(self._posted.popleft() if self._posted else self._next())
                if self.largest == SMALL and not self._posted:
                    await asyncio.sleep(PACE)

    def _may_send(self) -> bool:
        is_open = self._wire is not None and not self._paused
        return is_open and bool(self._waiting) and self._outgoing.size < WINDOW

    async def _send_again_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._wire and not self._paused:
                async with self._order:
                    data = self._outgoing.next_due(self._now())
                    if data is not None:
                        await self._send(data)

    def _next(self) -> bytes:
        kind, payload = self._next_payload()
        flags = messages.FIRST if self._sequence == 0 and self._sends == messages.OUTPUT else 0
        message = Message(self._sends, self._sequence, uuid4(), _milliseconds(), payload, kind, flags)
        data = message.encode()
        now = self._now()
        self.active = now
        self._outgoing.add(self._sequence, data, now)
        self._sequence += 1
        was_full = self.is_full
        self._backlog -= len(payload)
        if was_full and not self.is_full:
            waiting, self._on_room = self._on_room, []
            for call in waiting:
                call()
        return data

    def _next_payload(self) -> tuple[int, bytes]:
        """Return the next payload: join small writes and split large ones, because output is a stream."""
        kind, first = self._waiting.popleft()
        if len(first) > self.largest:
            self._waiting.appendleft((kind, first[self.largest :]))
            return kind, first[: self.largest]
        parts, size = [first], len(first)
        while kind == Kind.OUTPUT and self._waiting and self._waiting[0][0] == kind:
            following = self._waiting[0][1]
            if size + len(following) > self.largest:
                break
            self._waiting.popleft()
            parts.append(following)
            size += len(following)
        return kind, parts[0] if len(parts) == 1 else b"".join(parts)

    async def _send(self, data: bytes) -> None:
        wire = self._wire
        if wire is None:
            return
        try:
            await wire.send(data)
        except ConnectionError:
            self.detach(wire)

    # --- connections ---

    async def attach(self, wire: Wire) -> None:
        """Continue over a new connection, and repeat all messages without an acknowledgement."""
        async with self._order:
            self._wire, self._paused = wire, False
            self._posted.clear()
            self.received_at = self._now()
            for data in self._outgoing.repeat_all(self._now()):
                await self._send(data)
        self._changed.set()

    def detach(self, wire: Wire) -> None:
        """Stop using a broken connection."""
        if self._wire is wire:
            self._wire = None
            self._posted.clear()

    @property
    def is_attached(self) -> bool:
        return self._wire is not None

    # --- receiving ---

    async def take(self, data: bytes) -> None:
        """Handle one received message. Raise MessageError for an invalid message or one of the wrong direction."""
        message = messages.decode(data)
        self.received_at = self._now()
        if message.type == messages.ACKNOWLEDGE:
            self._handle_acknowledgement(messages.acknowledgement(message))
        elif message.type == self._receives:
            await self._take(message)
        elif message.type == messages.PAUSE:
            self._paused = True
        elif message.type == messages.START:
            self._paused = False
            self._changed.set()
        elif message.type == messages.CHANNEL_CLOSED:
            self.close(messages.channel_closed(message))
        else:
            raise MessageError(f"this end receives no {message.type}")

    def close(self, message: ChannelClosed | None) -> None:
        """Mark the channel as closed. `payloads` ends after the last received payload."""
        self.closed = self.closed or message
        self._over = True
        self._arrived.set()
        self._changed.set()

    async def payloads(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the received payloads in order until the channel is closed. Each payload that is consumed makes room
        for more."""
        while True:
            while self._received:
                message = self._received.popleft()
                yield message.kind, message.payload
                self._held -= len(message.payload)
                self._acknowledge_late()
            if self._over:
                return
            self._arrived.clear()
            await self._arrived.wait()

    def _handle_acknowledgement(self, acknowledgement: Acknowledgement) -> None:
        if self._outgoing.acknowledge(acknowledgement.sequence, self._now()):
            self._paused = False
            self._changed.set()

    async def _take(self, message: Message) -> None:
        is_new = message.sequence >= self._incoming.expected and message.sequence not in self._incoming.early
        is_kept, ready = self._incoming.take(message)
        for each in ready:
            self._held += len(each.payload)
            self._received.append(each)
        if ready:
            self.active = self._now()
            self._arrived.set()
        if is_kept and self._held <= LATE:
            self._acknowledge(message)
        elif is_kept and is_new:
            self._unacknowledged.append(message)
        while self._held > FULL and not self._over:
            self._room.clear()
            await self._room.wait()

    def _acknowledge_late(self) -> None:
        if self._held <= FULL:
            self._room.set()
        if self._held <= LATE and self._unacknowledged:
            late, self._unacknowledged = self._unacknowledged, []
            for each in late:
                self._acknowledge(each)

    def _acknowledge(self, message: Message) -> None:
        self.post(Acknowledgement.of(message).message(uuid4(), _milliseconds()))


def _milliseconds() -> int:
    return int(time.time() * 1000)


@contextlib.asynccontextmanager
async def running(channel: Channel) -> AsyncIterator[Channel]:
    """Run the channel inside the block."""
    task = asyncio.ensure_future(channel.run())
    try:
        yield channel
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
