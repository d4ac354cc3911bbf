"""Two ends of a data channel over connections that lose, reorder and close."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest

from trainyard.datachannel import channel as channels
from trainyard.datachannel.channel import Channel, running
from trainyard.datachannel.forwarding import Streams
from trainyard.datachannel.message import INPUT, OUTPUT, ChannelClosed, Kind, MessageError


class Pipe:
    """A connection to the other end that transforms each message."""

    def __init__(self, to: Channel, does: Callable[[bytes], list[bytes]] = lambda data: [data]) -> None:
        self.to, self.does, self.is_gone = to, does, False
        self.sent = 0

    async def send(self, data: bytes) -> None:
        if self.is_gone:
            raise ConnectionResetError
        self.sent += 1
        for each in self.does(data):
            await self.to.take(each)


def within(work: Coroutine[Any, Any, Any], seconds: float = 20) -> None:
    async def limited() -> None:
        async with asyncio.timeout(seconds):
            await work

    asyncio.run(limited())


def ends(largest: int = 1024) -> tuple[Channel, Channel]:
    client, agent = Channel(INPUT), Channel(OUTPUT)
    client.largest = agent.largest = largest
    return client, agent


async def collected(channel: Channel, size: int) -> bytes:
    found: list[bytes] = []
    async for kind, payload in channel.payloads():
        assert kind == Kind.OUTPUT
        found.append(payload)
        if sum(map(len, found)) >= size:
            break
    return b"".join(found)


def test_what_is_written_comes_in_order_and_is_acknowledged() -> None:
    async def story() -> None:
        client, agent = ends()
        async with running(client), running(agent):
            await client.attach(Pipe(agent))
            await agent.attach(Pipe(client))
            data = b"".join(b"%06d" % number for number in range(2000))
            client.write(Kind.OUTPUT, data)
            agent.write(Kind.OUTPUT, b"hello")
            assert await collected(agent, len(data)) == data
            assert await collected(client, 5) == b"hello"
            assert await client.wait_until_idle(5)

    within(story())


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_or_doubled_whatever_a_way_does(seed: int) -> None:
    """Messages, including acknowledgements, are lost, repeated and delayed."""

    async def story() -> None:
        chance = Random(seed)
        late: list[bytes] = []

        def unruly(data: bytes) -> list[bytes]:
            match chance.randrange(8):
                case 0:
                    return []
                case 1:
                    return [data, data]
                case 2:
                    late.append(data)
                    return []
                case 3:
                    given, late[:] = [data, *reversed(late)], []
                    return given
            return [data]

        client, agent = ends(300)
        async with running(client), running(agent):
            await client.attach(Pipe(agent, unruly))
            await agent.attach(Pipe(client))
            data = b"".join(b"%06d" % number for number in range(500))
            client.write(Kind.OUTPUT, data)
            assert await collected(agent, len(data)) == data

    within(story())


def test_what_was_on_its_way_at_a_cut_comes_over_the_next_connection() -> None:
    async def story() -> None:
        client, agent = ends()
        async with running(client), running(agent):
            numbers = itertools.count()
            first = Pipe(agent, lambda data: [data] if next(numbers) < 3 else [])
            await client.attach(first)
            await agent.attach(Pipe(client))
            data = bytes(range(256)) * 60
            client.write(Kind.OUTPUT, data)
            taken = asyncio.ensure_future(collected(agent, len(data)))
            while first.sent < 8:
                await asyncio.sleep(0.01)
            first.is_gone = True
            client.write(Kind.OUTPUT, b"and more")
            while client.is_attached:
                await asyncio.sleep(0.01)
            await client.attach(Pipe(agent))
            assert await taken == data
            assert await collected(agent, 8) == b"and more"

    within(story())


def test_who_takes_nothing_is_not_sent_without_end() -> None:
    async def story() -> None:
        client, agent = ends(channels.LARGE)
        async with running(client), running(agent):
            way = Pipe(agent)
            await client.attach(way)
            await agent.attach(Pipe(client))
            block = bytes(channels.LARGE)
            for _ in range(400):
                client.write(Kind.OUTPUT, block)
            for _ in range(50):
                await asyncio.sleep(0.01)
            assert client.is_full
            assert way.sent * len(block) < channels.LATE + channels.WINDOW + 20 * len(block)
            assert len(await collected(agent, 400 * len(block))) == 400 * len(block)
            assert await client.wait_until_idle(5)

    within(story())


class Narrow:
    """A connection with limited room: a sender waits until the other end has read."""

    def __init__(self, to: Channel, room: int) -> None:
        self.queue: asyncio.Queue[bytes] = asyncio.Queue(room)
        self._to = to

    async def send(self, data: bytes) -> None:
        await self.queue.put(data)

    async def carry(self) -> None:
        while True:
            await self._to.take(await self.queue.get())


def test_two_that_send_much_to_each_other_do_not_wait_for_each_other() -> None:
    async def story() -> None:
        client, agent = ends()
        async with running(client), running(agent):
            ways = Narrow(agent, 2), Narrow(client, 2)
            carrying = [asyncio.ensure_future(way.carry()) for way in ways]
            data = bytes(range(256)) * 400
            client.write(Kind.OUTPUT, data)
            agent.write(Kind.OUTPUT, data)
            await client.attach(ways[0])
            await agent.attach(ways[1])
            both = await asyncio.gather(collected(agent, len(data)), collected(client, len(data)))
            assert list(both) == [data, data]
            for each in carrying:
                each.cancel()

    within(story())


def test_paused_an_end_says_nothing_until_it_may() -> None:
    async def story() -> None:
        from dataclasses import replace
        from uuid import uuid4

        from trainyard.datachannel.message import PAUSE, START, Message

        client, agent = ends()
        async with running(client), running(agent):
            way = Pipe(agent)
            await client.attach(way)
            await agent.attach(Pipe(client))
            word = Message(PAUSE, 0, uuid4(), 1, b"")
            agent.post(word)
            await agent.flush(5)
            client.write(Kind.OUTPUT, b"x")
            await asyncio.sleep(0.05)
            assert way.sent == 0
            agent.post(replace(word, type=START))
            assert await collected(agent, 1) == b"x"

    within(story())


def test_a_closed_channel_gives_what_came_before_and_ends() -> None:
    async def story() -> None:
        client, agent = ends()
        async with running(client), running(agent):
            await agent.attach(Pipe(client))
            await client.attach(Pipe(agent))
            agent.write(Kind.OUTPUT, b"bye")
            assert await agent.wait_until_idle(5)
            client.close(ChannelClosed("s", "why"))
            assert [payload async for _, payload in client.payloads()] == [b"bye"]
            assert client.closed == ChannelClosed("s", "why")

    within(story())


def test_a_message_of_the_other_direction_is_none_of_ours() -> None:
    async def story() -> None:
        client, agent = ends()
        other = Channel(INPUT)
        async with running(other):
            await other.attach(Pipe(client))
            with pytest.raises(MessageError):
                await client.take(b"")
        assert agent.oldest is None

    within(story())


# --- connections through it ---


async def forwarded(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    story: Callable[[int, Streams, Streams], Awaitable[None]],
    target: int | None = None,
) -> None:
    """Run a scenario with a port that leads through a channel to a server."""
    client, agent = ends(channels.LARGE)
    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    to = target or server.sockets[0].getsockname()[1]
    near = Streams(client)
    far = Streams(agent, lambda make: loop.create_connection(make, "127.0.0.1", to))

    async def pump(channel: Channel, streams: Streams) -> None:
        async for kind, payload in channel.payloads():
            if kind == Kind.OUTPUT:
                await streams.handle(payload)
            else:
                streams.refused += 1

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(client))
        await stack.enter_async_context(running(agent))
        await client.attach(Pipe(agent))
        await agent.attach(Pipe(client))
        pumps = [asyncio.ensure_future(pump(client, near)), asyncio.ensure_future(pump(agent, far))]
        listener = await loop.create_server(near.accept, "127.0.0.1", 0)
        try:
            await story(listener.sockets[0].getsockname()[1], near, far)
        finally:
            for each in pumps:
                each.cancel()
            near.close()
            far.close()
            listener.close()
            server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write(b"end")
    writer.close()


async def until(look: Callable[[], bool]) -> None:
    while not look():
        await asyncio.sleep(0.01)


def test_a_connection_that_has_said_all_still_hears_the_answer() -> None:
    async def story(port: int, near: Streams, far: Streams) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello")
        writer.write_eof()
        assert await reader.read() == b"helloend"
        writer.close()
        await until(lambda: near.count == far.count == 0)

    within(forwarded(echo, story))


def test_many_connections_at_once_do_not_mix() -> None:
    async def one(port: int, number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        data = b"%04d" % number * 50_000
        writer.write(data)
        writer.write_eof()
        assert await reader.read() == data + b"end"
        writer.close()

    async def story(port: int, near: Streams, far: Streams) -> None:
        await asyncio.gather(*(one(port, number) for number in range(20)))
        await until(lambda: near.count == far.count == 0)

    within(forwarded(echo, story))


def test_where_nobody_listens_the_connection_ends_and_the_other_end_says_so() -> None:
    async def story(port: int, near: Streams, far: Streams) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()
        await until(lambda: near.refused == 1 and near.count == far.count == 0)

    within(forwarded(echo, story, target=1))


def test_a_server_that_speaks_to_somebody_gone_is_told() -> None:
    """A page may stream to a browser that was closed."""
    ended = asyncio.Event()

    async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(b"x" * 1000)
                await writer.drain()
                await asyncio.sleep(0.001)
        except ConnectionError:
            ended.set()

    async def story(port: int, near: Streams, far: Streams) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read(10)
        writer.transport.abort()
        await ended.wait()
        await until(lambda: near.count == far.count == 0)

    within(forwarded(chatter, story))
