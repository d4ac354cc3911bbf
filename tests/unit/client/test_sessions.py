"""Parts of a session on a host that need no host: escape keys, signatures, refusals."""

import asyncio
import fcntl
import os
import pty
import socket
import struct
import termios
from collections.abc import Iterator

import boto3
import pytest

from trainyard.client import Session
from trainyard.client.errors import NotHere, SessionRefused
from trainyard.client.sessions import forward, opening
from trainyard.client.sessions.link import Link
from trainyard.client.sessions.opening import Opened
from trainyard.client.sessions.terminal import Escape, Terminal
from trainyard.datachannel import handshake
from trainyard.datachannel.handshake import Request
from trainyard.datachannel.message import Size

SESSION = Session(boto3.Session("AKIDEXAMPLE", "secret", "token", region_name="us-east-1"))
OPENED = Opened(
    "alice-1", "i-1", "wss://ssmmessages.us-east-1.amazonaws.com/v1/data-channel/alice-1?role=x", "t"
)


@pytest.mark.parametrize(
    ("typed", "sent", "leaves"),
    [
        ([b"ls\r"], b"ls\r", False),
        ([b"\r~."], b"\r", True),
        ([b"~."], b"", True),
        ([b"\r", b"~", b"."], b"\r", True),
        ([b"a~."], b"a~.", False),
        ([b"\r~~."], b"\r~.", False),
        ([b"\r~x."], b"\r~x.", False),
        ([b"\n~", b"ls\r"], b"\n~ls\r", False),
        ([b"\r~\r~."], b"\r~\r", True),
    ],
)
def test_a_tilde_and_a_full_stop_after_enter_leave_a_session(
    typed: list[bytes], sent: bytes, leaves: bool
) -> None:
    escape, found, left = Escape(), b"", False
    for each in typed:
        data, left = escape.feed(each)
        found += data
    assert (found, left) == (sent, leaves)


@pytest.fixture
def keys() -> Iterator[tuple[int, int]]:
    master, slave = pty.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


def test_a_terminal_is_afterwards_as_it_was_whatever_happens(keys: tuple[int, int]) -> None:
    before = termios.tcgetattr(keys[1])

    def fails() -> None:
        with Terminal(keys[1], keys[1]):
            assert not termios.tcgetattr(keys[1])[3] & termios.ICANON
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert termios.tcgetattr(keys[1]) == before


def test_a_size_is_told_before_what_is_typed_after_it_changed(keys: tuple[int, int]) -> None:
    person, command = keys

    async def story() -> list[Size | bytes]:
        told: list[Size | bytes] = []

        def take(data: bytes) -> bool:
            told.append(data)
            return True

        with (
            Terminal(command, command) as terminal,
            terminal.pass_input(take),
            terminal.pass_size(told.append),
        ):
            for rows in (24, 33, 33):  # no SIGWINCH: this is not the process's own terminal
                fcntl.ioctl(person, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 111, 0, 0))
                os.write(person, b"x")
                seen = len(told)
                while told[seen:][-1:] != [b"x"]:
                    await asyncio.sleep(0.01)
        return told

    told = asyncio.run(asyncio.wait_for(story(), 10))
    assert told[1:] == [Size(111, 24), b"x", Size(111, 33), b"x", b"x"]


def test_what_a_pipe_holds_is_typed_and_then_its_end() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"echo hello\n")
    os.close(writing)

    async def story() -> list[bytes]:
        typed: list[bytes] = []

        def take(data: bytes) -> bool:
            typed.append(data)
            return True

        with Terminal(reading, reading) as terminal:
            assert terminal.size is None
            with terminal.pass_input(take):
                await asyncio.sleep(0.1)
                assert typed == []  # a shell discards input before its first output
                terminal.mark_answered()
                while not typed or typed[-1] != b"\x04":
                    await asyncio.sleep(0.01)
        return typed

    assert b"".join(asyncio.run(asyncio.wait_for(story(), 10))) == b"echo hello\n\x04"
    os.close(reading)


def test_the_opening_of_a_channel_is_signed_for_the_message_gateway() -> None:
    headers = opening.sign_headers(SESSION, OPENED.url)
    assert "/us-east-1/ssmmessages/aws4_request" in headers["Authorization"]
    assert headers["X-Amz-Security-Token"] == "token"
    assert "Host" not in headers


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (None, "did not forward the port"),
        (Request.for_session("3.3.0.0", handshake.SHELL, {}, 1024), "did not forward the port"),
        (
            Request.for_session("3.0.196.0", handshake.PORT, {"type": "LocalPortForwarding"}, 1024),
            "3.0.196.0",
        ),
    ],
)
def test_an_agent_that_forwards_one_connection_or_none_is_refused(asked: Request | None, why: str) -> None:
    async def story() -> None:
        link = Link(SESSION, OPENED, lambda sentence: None)
        link.request = asked
        forward.check(link)

    with pytest.raises(SessionRefused, match=why):
        asyncio.run(story())


def test_sessions_that_a_key_of_kms_encrypts_are_refused_with_what_can_them() -> None:
    async def story() -> None:
        link = Link(SESSION, OPENED, lambda sentence: None)
        asked = Request("3.3.0.0", {handshake.ENCRYPTION: {"KMSKeyId": "k"}})
        link._answer(asked.payload())

    with pytest.raises(SessionRefused, match="AWS's Session Manager plugin"):
        asyncio.run(story())


def test_a_port_that_is_taken_here_is_said_with_another_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(NotHere, match=f"port {port} of this computer"):
            forward.listen(port)
