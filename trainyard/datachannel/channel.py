"""One end of a session's data channel: payloads in order, whatever becomes of the connections below.

A channel outlives its connections (`Wire`): what was not acknowledged is sent again over the next one. What nobody
takes from it is acknowledged late, and at last not read, so that neither end holds more than a few megabytes.
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
"""Bytes of payload that these ends take."""
PACE = 0.001
"""Seconds between two messages to an end that takes small payloads alone, as the public ends have it."""
WINDOW = 4 << 20
"""Bytes on their way: sent, and not acknowledged."""
BACKLOG = 1 << 20
"""Bytes that wait to be sent, above which a writer should wait."""
LATE, FULL = 4 << 20, 16 << 20
"""Bytes that have come and were not taken: above the first nothing is acknowledged, above the second nothing read."""
LOOK_SECONDS = 0.1


class Wire(Protocol):
    """One connection. `send` raises ConnectionError once it is gone."""

    async def send(self, data: bytes) -> None: ...


class Channel:
    """`says` is the type of this end's messages, INPUT or OUTPUT. To be used within one event loop."""

    def __init__(self, says: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self.largest = SMALL
        """Bytes of payload that the other end takes."""
        self.closed: ChannelClosed | None = None
        """What the other end said at its end."""
        self.active = now()
        """When the last payload went or came."""
        self.heard = now()
        """When the last message came, an acknowledgement too."""
        self._says = says
        self._hears = messages.OUTPUT if says == messages.INPUT else messages.INPUT
        self._now = now
        self._wire: Wire | None = None
        self._paused = False
        self._over = False
        self._sequence = 0
        self._outgoing = Outgoing()
        self._incoming = Incoming()
        self._words: deque[bytes] = deque()
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._backlog = 0
        self._taken: deque[Message] = deque()
        self._held = 0
        self._unsaid: list[Message] = []
        self._order = asyncio.Lock()
        self._changed = asyncio.Event()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._on_room: list[Callable[[], None]] = []

    # --- sending ---

    def write(self, kind: int, data: bytes) -> None:
        """Send it after all that was written before. Who has much to say waits while `is_full`."""
        self._waiting.append((kind, data))
        self._backlog += len(data)
        self._changed.set()

    @property
    def is_full(self) -> bool:
        return self._backlog > BACKLOG

    def when_room(self, call: Callable[[], None]) -> None:
        """Call this once the channel is no longer full."""
        self._on_room.append(call)

    @property
    def is_idle(self) -> bool:
        """Everything that was written has been acknowledged."""
        return not self._waiting and not self._outgoing.unacknowledged

    @property
    def oldest(self) -> float | None:
        """When what was last sent of the oldest message without acknowledgement went; None: there is none."""
        return next((each.at for each in self._outgoing.unacknowledged.values()), None)

    async def settled(self, seconds: float) -> bool:
        """Wait until it `is_idle`, for so long at most; whether it is."""
        until = self._now() + seconds
        while not self.is_idle and self._now() < until and not self._over:
            await asyncio.sleep(0.01)
        return self.is_idle

    def say(self, message: Message) -> None:
        """A message outside of the stream, over the connection of now if there is one. Before what is written: and not
        at once, for who reads must not wait until the other end does."""
        if self._wire is not None:
            self._words.append(message.encode())
            self._changed.set()

    async def said(self, seconds: float) -> None:
        """Wait until what was said outside of the stream is on its way, for so long at most."""
        until = self._now() + seconds
        while self._words and self._now() < until:
            await asyncio.sleep(0.01)
        async with self._order:
            return

    async def run(self) -> None:
        """Send what is written, again and again what is not acknowledged. Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._send_forever())
            tasks.create_task(self._send_again_forever())

    async def _send_forever(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._words or self._may_send():
                async with self._order:
                    await self._send(self._words.popleft() if self._words else self._next())
                if self.largest == SMALL and not self._words:
                    await asyncio.sleep(PACE)

    def _may_send(self) -> bool:
        is_open = self._wire is not None and not self._paused
        return is_open and bool(self._waiting) and self._outgoing.size < WINDOW

    async def _send_again_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._wire and not self._paused:
                async with self._order:
                    data = self._outgoing.due(self._now())
                    if data is not None:
                        await self._send(data)

    def _next(self) -> bytes:
        kind, payload = self._next_payload()
        flags = messages.FIRST if self._sequence == 0 and self._says == messages.OUTPUT else 0
        message = Message(self._says, self._sequence, uuid4(), _milliseconds(), payload, kind, flags)
        data = message.encode()
        now = self._now()
        self.active = now
        self._outgoing.sent(self._sequence, data, now)
        self._sequence += 1
        was_full = self.is_full
        self._backlog -= len(payload)
        if was_full and not self.is_full:
            waiting, self._on_room = self._on_room, []
            for call in waiting:
                call()
        return data

    def _next_payload(self) -> tuple[int, bytes]:
        """What was written in pieces goes together, and what is too large in pieces: output is a stream."""
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
        """Go on over this connection. The other end is sent again whatever it has not acknowledged."""
        async with self._order:
            self._wire, self._paused = wire, False
            self._words.clear()
            self.heard = self._now()
            for data in self._outgoing.all_again(self._now()):
                await self._send(data)
        self._changed.set()

    def detach(self, wire: Wire) -> None:
        """This connection is gone."""
        if self._wire is wire:
            self._wire = None
            self._words.clear()

    @property
    def is_attached(self) -> bool:
        return self._wire is not None

    # --- receiving ---

    async def take(self, data: bytes) -> None:
        """Bytes of one message that came. Raises MessageError of what is none, or of another direction."""
        message = messages.decode(data)
        self.heard = self._now()
        if message.type == messages.ACKNOWLEDGE:
            self._acknowledged(messages.acknowledgement(message))
        elif message.type == self._hears:
            await self._take(message)
        elif message.type == messages.PAUSE:
            self._paused = True
        elif message.type == messages.START:
            self._paused = False
            self._changed.set()
        elif message.type == messages.CHANNEL_CLOSED:
            self.close(messages.channel_closed(message))
        else:
            raise MessageError(f"nothing here hears {message.type}")

    def close(self, said: ChannelClosed | None) -> None:
        """Nothing comes any more: `payloads` ends when all was taken."""
        self.closed = self.closed or said
        self._over = True
        self._arrived.set()
        self._changed.set()

    async def payloads(self) -> AsyncIterator[tuple[int, bytes]]:
        """What comes, in order, until the channel is closed. What is taken makes room for more."""
        while True:
            while self._taken:
                message = self._taken.popleft()
                yield message.kind, message.payload
                self._held -= len(message.payload)
                self._say_late()
            if self._over:
                return
            self._arrived.clear()
            await self._arrived.wait()

    def _acknowledged(self, said: Acknowledgement) -> None:
        if self._outgoing.acknowledged(said.sequence, self._now()):
            self._paused = False
            self._changed.set()

    async def _take(self, message: Message) -> None:
        is_new = message.sequence >= self._incoming.expected and message.sequence not in self._incoming.early
        is_kept, ready = self._incoming.take(message)
        for each in ready:
            self._held += len(each.payload)
            self._taken.append(each)
        if ready:
            self.active = self._now()
            self._arrived.set()
        if is_kept and self._held <= LATE:
            self._acknowledge(message)
        elif is_kept and is_new:
            self._unsaid.append(message)
        while self._held > FULL and not self._over:
            self._room.clear()
            await self._room.wait()

    def _say_late(self) -> None:
        if self._held <= FULL:
            self._room.set()
        if self._held <= LATE and self._unsaid:
            late, self._unsaid = self._unsaid, []
            for each in late:
                self._acknowledge(each)

    def _acknowledge(self, message: Message) -> None:
        self.say(Acknowledgement.of(message).message(uuid4(), _milliseconds()))


def _milliseconds() -> int:
    return int(time.time() * 1000)


@contextlib.asynccontextmanager
async def running(channel: Channel) -> AsyncIterator[Channel]:
    """The channel at work inside the block."""
    task = asyncio.ensure_future(channel.run())
    try:
        yield channel
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
