"""The SSM agent's part of one session, inside the host: a shell, a command or a port, and the channel to its client.

Started by the server for each session, as root and with a socket to it at descriptor 3. Over that it is given the
connections of the client, one after another: the channel outlives them. What happens is told there, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import pty
import pwd
import shlex
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from localcloud.machine.guest import websocket
from localcloud.machine.guest.processes import CONTROL
from trainyard.datachannel import handshake, message
from trainyard.datachannel.channel import LARGE, Channel, running
from trainyard.datachannel.forwarding import Streams
from trainyard.datachannel.handshake import Complete, Request, Response
from trainyard.datachannel.message import ChannelClosed, Flag, Kind, MessageError
from trainyard.datachannel.smux import SmuxError

USER = "ssm-user"
ACCOUNTS = (80_000, 90_000)
"""Numbers of a host's accounts: no account of the machine has one of these (etc/login.defs of the image)."""
PROCESS = "ssm-session-worker"
"""What such a process is called, as far as the kernel has room for it."""
SUDOERS = Path("/etc/sudoers.d/ssm-agent-users")
MULTIPLEXED_SINCE, SEPARATE_SINCE = "1.1.69.9", "1.2.295"
"""Of clients: from the version after this on, several connections through a port; errors beside output."""
LAST_WORDS = 2.0
"""Seconds in which the client must have what was said last, as the agent has it; what it has not by then is lost."""
READ = 1 << 16
SIGNALS = {0x03: signal.SIGINT, 0x1C: signal.SIGQUIT, 0x1A: signal.SIGTSTP}
"""What a control character means to a command without a terminal."""
BUFFER = 1 << 20


@dataclass(frozen=True)
class Order:
    """What the session is."""

    session: str
    target: str
    agent_version: str
    kind: str
    properties: Mapping[str, Any]
    run_as: str
    profile: str

    @property
    def shell(self) -> Mapping[str, Any]:
        """Of the properties those of a command on Linux."""
        found = self.properties.get("linux")
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class Account:
    name: str
    uid: int
    gid: int
    home: str

    def options(self) -> dict[str, Any]:
        """For a process that is to run as it. Where the machine knows one account alone, that one."""
        if self.uid == os.geteuid():
            return {}
        groups = os.getgrouplist(self.name, self.gid)
        return {"user": self.uid, "group": self.gid, "extra_groups": groups}


class SessionOver(Exception):  # noqa: N818 - as an end, not an error
    """With what there is to say of it."""


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
        self._told = 0.0

    async def run(self) -> None:
        """Until it is over, for one reason or another; then the client is told, and the server."""
        loop = asyncio.get_running_loop()
        self.control.setblocking(False)
        loop.add_reader(self.control, self._ordered)
        loop.add_signal_handler(signal.SIGTERM, self._end, "the instance is going down")
        async with running(self.channel):
            work = asyncio.ensure_future(self._work())
            self._keep(self._tell_activity())
            waited: list[asyncio.Future[Any]] = [work, self._over]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            why = self._over.result() if self._over.done() else ""
            work.cancel()
            try:
                await work
            except asyncio.CancelledError:
                pass  # it was ended from outside
            except SessionOver as end:
                why = str(end)
            await self.channel.settled(LAST_WORDS)
            closed = ChannelClosed(self.order.session, why, self.order.target)
            self.channel.say(closed.message(uuid4(), int(time.time() * 1000)))
            await self.channel.said(LAST_WORDS)
        self._tell(event="ended", reason=why)

    # --- the server's word ---

    def _ordered(self) -> None:
        """An order of the server's; without a server nothing goes on."""
        data, files, _, _ = socket.recv_fds(self.control, READ, 2)
        if not data:
            self._end("Systems Manager is gone")
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

    def _tell(self, **event: Any) -> None:
        try:
            self.control.send(json.dumps(event).encode())
        except OSError:
            self._end("Systems Manager is gone")

    async def _tell_activity(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            if self.channel.active > self._told:
                self._told = self.channel.active
                self._tell(event="active")

    def _keep(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- the client's connections ---

    async def _attach(self, given: socket.socket, begun: bytes) -> None:
        given.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader, writer = await asyncio.open_connection(sock=given, limit=BUFFER)
        writer.transport.set_write_buffer_limits(BUFFER)
        connection = Connection(writer, self._go)
        before, self._connection = self._connection, connection
        if before is not None:
            before.close()
        self._tell(event="connected")
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
                self._tell(event="disconnected")

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

    # --- what the session is for ---

    async def _work(self) -> None:
        if self.order.kind == handshake.SHELL:
            await self._terminal(["sh"], profile=self.order.profile)
            return
        await self._shake_hands()
        match self.order.kind:
            case handshake.INTERACTIVE:
                await self._terminal(["sh", "-c", str(self.order.shell.get("commands", ""))])
            case handshake.NON_INTERACTIVE:
                await self._command(str(self.order.shell.get("commands", "")))
            case _:
                await self._port(int(self.order.properties["portNumber"]))

    async def _shake_hands(self) -> None:
        began = time.monotonic_ns()
        order = self.order
        asked = Request.for_session(order.agent_version, order.kind, order.properties, LARGE)
        self.channel.write(Kind.HANDSHAKE_REQUEST, asked.payload())
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

    # --- a terminal ---

    async def _terminal(self, argv: list[str], profile: str = "") -> None:
        account = self._account()
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
            await asyncio.wait([reading], timeout=LAST_WORDS)  # somebody else may still hold the terminal
        finally:
            for task in (reading, writing):
                task.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
            os.close(master)
            await self._kill(process)

    async def _type(self, master: int, shell: int) -> None:
        """What the client types, to the terminal; its size, to it."""
        async for kind, payload in self.channel.payloads():
            if kind == Kind.OUTPUT:
                await write_all(master, payload)
            elif kind == Kind.SIZE:
                given = message.size(payload)
                size = struct.pack("HHHH", given.rows & 0xFFFF, given.columns & 0xFFFF, 0, 0)
                fcntl.ioctl(master, termios.TIOCSWINSZ, size)

    async def _pump(self, descriptor: int, kind: int) -> None:
        """What comes out of there, to the client, as fast as that takes it."""
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
            self.channel.when_room(room.set)
            await room.wait()

    # --- a command ---

    async def _command(self, commands: str) -> None:
        """Without a terminal, and without a shell unless it names one. Its exit code is the last word."""
        account = self._account(elevated=bool(self.order.shell.get("runAsElevated")))
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
                said = 128 - code if code < 0 else code
                self.channel.write(Kind.EXIT_CODE, f"EXIT_CODE: {said}".encode())
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

    # --- a port ---

    async def _port(self, port: int) -> None:
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
        """As for ssh, whose one connection is the session."""
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

    # --- processes ---

    def _account(self, *, elevated: bool = False) -> Account:
        if elevated or single_account():
            root = pwd.getpwuid(os.geteuid())
            return Account(root.pw_name, root.pw_uid, root.pw_gid, root.pw_dir)
        name = self.order.run_as
        if not name:
            make_user()
            name = USER
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise SessionOver(
                f"Unable to start shell: failed to start pty since RunAs user {name} does not exist"
            ) from None
        return Account(found.pw_name, found.pw_uid, found.pw_gid, found.pw_dir)

    def _environment(self, account: Account) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
        aws = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        return {**inherited, **aws, "TERM": "xterm-256color", "HOME": account.home}

    async def _kill(self, process: asyncio.subprocess.Process) -> None:
        """Whatever the session has started and is still of its group. Nothing of it is left."""
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
    """To a terminal, whose reader may be slow; one that is gone takes nothing."""
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


def single_account() -> bool:
    """In a user namespace there may be no other."""
    return int(Path("/proc/self/uid_map").read_text().split()[2]) == 1


def make_user() -> None:
    """The account that sessions run as, which the agent makes at the first unless somebody has: one that may become
    root."""
    SUDOERS.parent.mkdir(parents=True, exist_ok=True)
    SUDOERS.write_text(f"# User rules for {USER}\n{USER} ALL=(ALL) NOPASSWD:ALL\n")
    SUDOERS.chmod(0o440)
    with Path("/etc/passwd").open("r+") as accounts:
        fcntl.flock(accounts, fcntl.LOCK_EX)
        lines = [line.split(":") for line in accounts.read().splitlines()]
        if any(line[0] == USER for line in lines):
            return
        taken = {int(number) for line in lines for number in line[2:4]}
        uid = next(number for number in range(*ACCOUNTS) if number not in taken)
        home = Path("/home", USER)
        home.mkdir(parents=True, exist_ok=True)
        os.chown(home, uid, uid)
        home.chmod(0o750)
        with Path("/etc/group").open("a") as groups:
            groups.write(f"{USER}:x:{uid}:\n")
        accounts.write(f"{USER}:x:{uid}:{uid}::{home}:/bin/sh\n")


async def follow(control: socket.socket, order: Order) -> None:
    await Session(control, order).run()


def main() -> None:
    control = socket.socket(fileno=CONTROL)
    control.set_inheritable(False)
    Path("/proc/self/comm").write_text(PROCESS)
    order = Order(**json.loads(control.recv(1 << 20)))
    asyncio.run(follow(control, order))
