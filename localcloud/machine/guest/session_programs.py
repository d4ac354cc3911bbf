"""A terminal, a command or a port, connected to the client's channel."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import pty
import shlex
import signal
import struct
import termios
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from localcloud.machine.guest.accounts import Account, account_of
from localcloud.machine.guest.session_order import Order, SessionOver
from trainyard.datachannel import handshake, message
from trainyard.datachannel.channel import Channel
from trainyard.datachannel.forwarding import Streams
from trainyard.datachannel.message import Flag, Kind
from trainyard.datachannel.smux import SmuxError

FINAL_OUTPUT_SECONDS = 2.0
"""Seconds for the client to acknowledge the last output, as in AWS's agent. Later output is lost."""
READ = 1 << 16
MULTIPLEXED_SINCE, SEPARATE_SINCE = "1.1.69.9", "1.2.295"
"""Client versions after which multiplexed ports and separate error output are supported."""
SIGNALS = {0x03: signal.SIGINT, 0x1C: signal.SIGQUIT, 0x1A: signal.SIGTSTP}
"""Signals that control characters send to a command without a terminal."""


@dataclass(frozen=True)
class Programs:
    """The programs of a session on this host. `client_version` is "0" before the handshake."""

    order: Order
    channel: Channel
    client_version: str

    async def terminal(self, argv: list[str], profile: str = "") -> None:
        account = account_of(self.order)
        master, slave = pty.openpty()
        os.fchown(slave, account.uid, -1)

        def take_terminal() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=self._environment(account),
            cwd="/",
            start_new_session=True,
            preexec_fn=take_terminal,
            **account.options(),
        )
        os.close(slave)
        os.set_blocking(master, False)
        reading = asyncio.ensure_future(self._pump(master, Kind.OUTPUT))
        writing = asyncio.ensure_future(self._type(master, process.pid))
        try:
            if profile.strip():
                await write_all(master, profile.encode() + b"\n")
            await process.wait()
            # another process may still hold the terminal
            await asyncio.wait([reading], timeout=FINAL_OUTPUT_SECONDS)
        finally:
            for task in (reading, writing):
                task.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
            os.close(master)
            await self._kill(process)

    async def _type(self, master: int, shell: int) -> None:
        """Forward the client's input and window size to the terminal."""
        async for kind, payload in self.channel.payloads():
            if kind == Kind.OUTPUT:
                await write_all(master, payload)
            elif kind == Kind.SIZE:
                given = message.size(payload)
                size = struct.pack("HHHH", given.rows & 0xFFFF, given.columns & 0xFFFF, 0, 0)
                fcntl.ioctl(master, termios.TIOCSWINSZ, size)

    async def _pump(self, descriptor: int, kind: int) -> None:
        """Forward output to the client as fast as the client accepts it."""
        while True:
            await readable(descriptor)
            try:
                data = os.read(descriptor, READ)
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno == errno.EIO:
                    return
                raise
            if not data:
                return
            self.channel.write(kind, data)
            await self._room()

    async def _room(self) -> None:
        if self.channel.is_full:
            room = asyncio.Event()
            self.channel.call_when_not_full(room.set)
            await room.wait()

    async def command(self, commands: str) -> None:
        """Run a command without a terminal, and without a shell unless it names one. Its exit code is sent last."""
        account = account_of(self.order, elevated=bool(self.order.shell.get("runAsElevated")))
        separate = str(self.order.shell.get("separateOutputStream", "")).lower() == "true"
        try:
            argv = shlex.split(commands)
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE if separate else asyncio.subprocess.STDOUT,
                env=self._environment(account),
                cwd="/",
                start_new_session=True,
                **account.options(),
            )
        except (OSError, ValueError, TypeError) as error:
            self.channel.write(Kind.OUTPUT, f"Unable to start command: {error}\n".encode())
            return
        signals = asyncio.ensure_future(self._signal(process))
        newer = handshake.is_newer(self.client_version, SEPARATE_SINCE)
        try:
            assert process.stdout is not None
            pumps = [self._drain(process.stdout, Kind.OUTPUT)]
            if process.stderr is not None:
                pumps.append(self._drain(process.stderr, Kind.STDERR if newer else Kind.OUTPUT))
            await asyncio.gather(*pumps)
            code = await process.wait()
            if separate and newer:
                exit_code = 128 - code if code < 0 else code
                self.channel.write(Kind.EXIT_CODE, f"EXIT_CODE: {exit_code}".encode())
        finally:
            signals.cancel()
            await self._kill(process)

    async def _drain(self, reader: asyncio.StreamReader, kind: int) -> None:
        while data := await reader.read(READ):
            self.channel.write(kind, data)
            await self._room()

    async def _signal(self, process: asyncio.subprocess.Process) -> None:
        async for kind, payload in self.channel.payloads():
            number = next((SIGNALS[byte] for byte in payload if byte in SIGNALS), None)
            if kind == Kind.OUTPUT and number is not None and process.returncode is None:
                os.killpg(process.pid, number)

    async def port(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        several = handshake.is_newer(self.client_version, MULTIPLEXED_SINCE)
        if self.order.properties.get("type") != handshake.LOCAL_FORWARDING or not several:
            await self._one_connection(port)
            return
        streams = Streams(self.channel, lambda make: loop.create_connection(make, "localhost", port))
        try:
            async for kind, payload in self.channel.payloads():
                if kind == Kind.FLAG and message.flag(payload) == Flag.TERMINATE_SESSION:
                    return
                if kind == Kind.OUTPUT:
                    await streams.handle(payload)
        except SmuxError as error:
            raise SessionOver(str(error)) from error
        finally:
            streams.close()

    async def _one_connection(self, port: int) -> None:
        """Serve a single connection, which is the whole session, as for ssh."""
        try:
            reader, writer = await asyncio.open_connection("localhost", port)
        except OSError as error:
            raise SessionOver(f"Unable to connect to specified port: {error}") from error
        drained = asyncio.ensure_future(self._drain(reader, Kind.OUTPUT))
        written = asyncio.ensure_future(self._write(writer))
        try:
            await asyncio.wait([drained, written], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (drained, written):
                task.cancel()
            await asyncio.gather(drained, written, return_exceptions=True)
            writer.close()

    async def _write(self, writer: asyncio.StreamWriter) -> None:
        async for kind, payload in self.channel.payloads():
            if kind == Kind.FLAG:
                return
            if kind == Kind.OUTPUT:
                writer.write(payload)
                await writer.drain()

    def _environment(self, account: Account) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
        aws = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        return {**inherited, **aws, "TERM": "xterm-256color", "HOME": account.home}

    async def _kill(self, process: asyncio.subprocess.Process) -> None:
        """Kill the remaining processes in the session's process group."""
        for number in (signal.SIGHUP, signal.SIGCONT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        await process.wait()


async def readable(descriptor: int) -> None:
    await _ready(descriptor, asyncio.get_running_loop().add_reader, asyncio.get_running_loop().remove_reader)


async def _ready(
    descriptor: int, add: Callable[[int, Callable[[], None]], Any], remove: Callable[[int], Any]
) -> None:
    ready = asyncio.Event()
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)


async def write_all(descriptor: int, data: bytes) -> None:
    """Write to a terminal with a slow reader. Data for a closed terminal is dropped."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            loop = asyncio.get_running_loop()
            await _ready(descriptor, loop.add_writer, loop.remove_writer)
        except OSError as error:
            if error.errno == errno.EIO:
                return
            raise
