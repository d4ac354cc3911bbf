"""WebSocket frames of the local cloud's hosts, with the examples of RFC 6455 and a client's frames."""

import os

import pytest
from websockets.frames import Frame, Opcode

from localcloud.machine.guest import websocket
from localcloud.machine.guest.websocket import BINARY, CLOSE, PING, TEXT, Parser, WebSocketError


def sent(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin=fin).serialize(mask=True)


def test_the_rfcs_key_has_the_rfcs_answer() -> None:
    assert websocket.accept("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def test_the_rfcs_masked_hello_is_read() -> None:
    assert list(Parser().feed(bytes.fromhex("818537fa213d7f9f4d5158"))) == [(TEXT, b"Hello")]
    assert websocket.encode(TEXT, b"Hello") == bytes.fromhex("810548656c6c6f")


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 200_001])
@pytest.mark.parametrize("step", [1000, 1 << 20])
def test_messages_of_any_size_in_pieces_of_any_size(size: int, step: int) -> None:
    data = os.urandom(size)
    stream, parser = sent(Opcode.BINARY, data) + sent(Opcode.PING, b"?"), Parser()
    found = [
        each for start in range(0, len(stream), step) for each in parser.feed(stream[start : start + step])
    ]
    assert found == [(BINARY, data), (PING, b"?")]
    assert parser.rest == b""


def test_a_message_in_parts_with_a_ping_between_them() -> None:
    stream = sent(Opcode.BINARY, b"a", fin=False) + sent(Opcode.PING, b"") + sent(Opcode.CONT, b"b")
    assert list(Parser().feed(stream)) == [(PING, b""), (BINARY, b"ab")]


def test_what_follows_the_first_message_is_left_for_who_reads_on() -> None:
    first, second = sent(Opcode.TEXT, b"open"), sent(Opcode.BINARY, b"data")
    parser = Parser(first + second)
    assert next(parser.feed(b"")) == (TEXT, b"open")
    assert list(Parser(parser.rest).feed(sent(Opcode.CLOSE, b""))) == [(BINARY, b"data"), (CLOSE, b"")]


@pytest.mark.parametrize(
    "stream",
    [
        Frame(Opcode.BINARY, b"not masked").serialize(mask=False),
        sent(Opcode.CONT, b"of nothing"),
        sent(Opcode.BINARY, b"a", fin=False) + sent(Opcode.BINARY, b"b"),
        bytes.fromhex("82ff00000001000000000000"),
    ],
)
def test_what_no_client_sends_ends_the_connection(stream: bytes) -> None:
    with pytest.raises(WebSocketError):
        list(Parser().feed(stream))
