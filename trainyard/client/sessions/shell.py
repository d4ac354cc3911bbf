"""A shell on a host in this terminal, or one command on a host."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shlex
import signal
from collections.abc import Awaitable, Callable, Sequence

from trainyard.client.deployment import Deployment
from trainyard.client.errors import SessionRefused
from trainyard.client.sessions import opening
from trainyard.client.sessions.ending import ENDS, terminate_afterwards
from trainyard.client.sessions.link import Link, OnStep
from trainyard.client.sessions.terminal import Terminal
from trainyard.command_line import command_line
from trainyard.datachannel.channel import Channel
from trainyard.datachannel.message import Kind

INTERRUPT = b"\x03"
LEAVES = "Enter, then ~ and . leave it"
EXIT_CODE = re.compile(rb"(-?\d+)\s*$")
NO_CODE = 255
"""The exit code if the command's exit code is unknown, as in ssh."""


def command_document(yard: Deployment) -> str:
    """Return the name of the yard's SSM document for a single command, which reports the exit code."""
    return f"{yard.name.lower()}-command"


def shell_document(yard: Deployment) -> str:
    """Return the name of the yard's SSM document for a login shell in the home folder. The default SSM document starts
    `sh` in `/`."""
    return f"{yard.name.lower()}-shell"


def run(yard: Deployment, host: str, on_step: OnStep) -> None:
    """Run a login shell on the host until it ends or the user leaves it, and restore the terminal. Raise HostNotFound,
    HostNotConnected, Denied or SessionOver."""
    opened = opening.start(yard, host, shell_document(yard), {}, "trainyard shell")
    link = Link(yard.session, opened, on_step)
    with Terminal() as terminal:
        asyncio.run(_shell(link, terminal))


def run_command(yard: Deployment, host: str, arguments: Sequence[str], on_step: OnStep) -> int:
    """Run one command in the host's shell with the output and errors of this process, and return the exit code."""
    line = arguments[0] if len(arguments) == 1 else shlex.join(arguments)
    return asyncio.run(_command(Link(yard.session, begin(yard, host, line), on_step)))


def begin(yard: Deployment, host: str, line: str) -> opening.Opened:
    """Start a session that runs this line in the host's shell."""
    encoded = base64.b64encode(line.encode()).decode()
    return opening.start(yard, host, command_document(yard), {"command": [encoded]}, "trainyard shell")


def run_line(yard: Deployment, host: str, line: str, on_step: OnStep) -> tuple[int | None, str]:
    """Run a line in the host's shell. Return the exit code, or None if it is missing, and the output. Raise
    HostNotFound, HostNotConnected, Denied or SessionRefused."""
    return asyncio.run(_read_answer(Link(yard.session, begin(yard, host, line), on_step)))


async def _read_answer(link: Link) -> tuple[int | None, str]:
    said = bytearray()

    async def keep(descriptor: int, data: bytes) -> None:
        if descriptor == 1:
            said.extend(data)

    async with terminate_afterwards(link):
        code = await read_output(link, keep)
    return code, said.decode(errors="replace")


async def _shell(link: Link, terminal: Terminal) -> None:
    signals = [number for number in ENDS if number != signal.SIGINT]  # Ctrl+C is a key for the host
    async with terminate_afterwards(link, signals), link.run_channel() as channel:
        with (
            terminal.pass_input(lambda data: _type(channel, data)),
            terminal.pass_size(lambda size: channel.write(Kind.SIZE, size.payload())),
        ):
            left = asyncio.ensure_future(terminal.leave_typed.wait())
            shown = asyncio.ensure_future(_show(link, terminal))
            try:
                await asyncio.wait([left, shown], return_when=asyncio.FIRST_COMPLETED)
                if shown.done():
                    await shown
            finally:
                for each in (left, shown):
                    each.cancel()
                await asyncio.gather(left, shown, return_exceptions=True)
        if channel.closed is not None and channel.closed.output:
            raise opening.session_over(link.opened, channel.closed.output)


def _type(channel: Channel, data: bytes) -> bool:
    """Send input to the host. Return True if the channel has room for more."""
    channel.write(Kind.OUTPUT, data)
    return not channel.is_full


async def _show(link: Link, terminal: Terminal) -> None:
    async for kind, payload in link.payloads():
        if kind in (Kind.OUTPUT, Kind.STDERR):
            terminal.mark_answered()
            await _write(1, payload)


async def _command(link: Link) -> int:
    code: int | None = None
    asked = 0

    def interrupt() -> None:
        """Send the first interrupt to the command. End the session at the second one."""
        nonlocal asked
        asked += 1
        if asked == 1:
            link.channel.write(Kind.OUTPUT, INTERRUPT)
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    async with terminate_afterwards(link, [each for each in ENDS if each != signal.SIGINT]):
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            code = await read_output(link, _write)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
    return NO_CODE if code is None else code


async def read_output(link: Link, write: Callable[[int, bytes], Awaitable[None]]) -> int | None:
    """Return the exit code of the session's command, or None if it is missing. Pass the output to `write`, by
    descriptor."""
    async with link.run_channel() as channel:
        async for kind, payload in link.payloads():
            if kind == Kind.OUTPUT:
                await write(1, payload)
            elif kind == Kind.STDERR:
                await write(2, payload)
            elif kind == Kind.EXIT_CODE and (found := EXIT_CODE.search(payload)):
                return int(found[1])  # the last number of the message
        if channel.closed is not None and channel.closed.output:
            raise SessionRefused(
                f"the command on {link.opened.target} was ended",
                channel.closed.output.rstrip("."),
                f"run it again, or look at the host: {command_line('hosts')}",
            )
    return None


async def _write(descriptor: int, data: bytes) -> None:
    """Write all the data, however slow the reader is. Meanwhile the connection continues."""
    while data:
        data = data[await asyncio.to_thread(os.write, descriptor, data) :]
