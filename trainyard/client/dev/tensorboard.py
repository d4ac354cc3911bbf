"""TensorBoard over a folder of a dev host, shown on this computer."""

from __future__ import annotations

import asyncio
import re
import shlex
import socket
from collections.abc import Callable
from typing import Any

from trainyard.client.deployment import Deployment
from trainyard.client.dev import hosts
from trainyard.client.errors import SessionOver, TensorBoardEnded
from trainyard.client.sessions import forward, shell
from trainyard.client.sessions.ending import terminate_afterwards
from trainyard.client.sessions.link import Link, OnStep
from trainyard.command_line import command_line

COMMAND = "/opt/trainyard/venv/bin/tensorboard"
SERVES = re.compile(rb"TensorBoard \S+ at http://[^:/]+:(\d+)/")
"""The line that TensorBoard prints once it serves."""
LAST_BYTES = 600


def hold(
    yard: Deployment, name: str, folder: str, local: int, ready: Callable[[str], None], on_step: OnStep
) -> None:
    """Run TensorBoard over a folder of the host and forward it to this computer until a signal ends both.

    A relative folder is below the home of the account for sessions. A session that ends is followed by another one.
    `ready` is called with the address, `on_step` with sentences for the user. Raise NotHere if the port is in use,
    HostNotFound, HostNotConnected, Denied or TensorBoardEnded.
    """
    said = ""

    def opened(port: int) -> None:
        nonlocal local, said
        local, address = port, f"http://{forward.LOOPBACK}:{port}/"
        if address != said:
            said = address
            ready(address)

    while True:
        with forward.listen(local) as listening:
            host = hosts.running(yard, name)
            try:
                asyncio.run(_run_both(yard, host.instance, line(folder), listening, opened, on_step))
            except SessionOver as over:
                on_step(f"{over.what} ({over.means}); beginning another")


def line(folder: str) -> str:
    """Return the command line for the host."""
    serves = [COMMAND, "--logdir", folder, "--host", forward.LOOPBACK, "--port", "0"]
    return f"cd && exec {shlex.join(serves)}"


async def _run_both(
    yard: Deployment,
    host: str,
    line: str,
    listening: socket.socket,
    ready: Callable[[int], None],
    on_step: OnStep,
) -> None:
    """Run TensorBoard and the forward until either ends."""
    said = bytearray()
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def keep(descriptor: int, data: bytes) -> None:
        said.extend(data)
        if not port.done() and (found := SERVES.search(said)):
            port.set_result(int(found[1]))
        del said[:-LAST_BYTES]

    link = Link(yard.session, await asyncio.to_thread(shell.begin, yard, host, line), on_step)
    async with terminate_afterwards(link):
        serving = asyncio.ensure_future(shell.read_output(link, keep))
        tasks: list[asyncio.Future[Any]] = [serving]
        try:
            first: list[asyncio.Future[Any]] = [serving, port]
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if port.done():
                local = int(listening.getsockname()[1])
                opened = await asyncio.to_thread(forward.begin, yard, host, port.result(), local)
                way = Link(yard.session, opened, on_step)
                tasks.append(
                    asyncio.ensure_future(forward.carry(way, listening, port.result(), ready, on_step, ()))
                )
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    raise TensorBoardEnded(
        f"TensorBoard on {host} has ended",
        said.decode(errors="replace").strip().rpartition("\n")[2] or "it said nothing",
        f"run this command again, or inspect the host: {command_line('dev', 'shell', 'NAME')}",
    )
