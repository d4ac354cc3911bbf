"""Frames of smux 1, in the format of xtaci/smux."""

import pytest

from trainyard.datachannel import smux
from trainyard.datachannel.smux import Command, Frame, Parser, SmuxError


def test_a_frame_is_little_endian() -> None:
    assert Frame(Command.OPEN, 3).encode() == bytes.fromhex("01 00 0000 03000000")
    assert Frame(Command.DATA, 1, b"hello").encode() == bytes.fromhex("01 02 0500 01000000") + b"hello"
    assert Frame(Command.END, 1).encode() == bytes.fromhex("01 01 0000 01000000")


def test_much_data_is_several_frames() -> None:
    data = bytes(range(256)) * 300
    found = list(Parser().feed(smux.frames(5, data)))
    assert [len(each.data) for each in found] == [32768, 32768, 76800 - 65536]
    assert b"".join(each.data for each in found) == data


@pytest.mark.parametrize("step", [1, 7, 8, 9, 1000])
def test_frames_may_come_in_pieces_of_any_size(step: int) -> None:
    sent = [
        Frame(Command.OPEN, 1),
        Frame(Command.DATA, 1, b"x" * 500),
        Frame(Command.NOTHING, 0),
        Frame(Command.END, 1),
    ]
    data, parser = b"".join(each.encode() for each in sent), Parser()
    found = [
        frame for start in range(0, len(data), step) for frame in parser.feed(data[start : start + step])
    ]
    assert found == sent


@pytest.mark.parametrize(
    "data", [bytes.fromhex("02 00 0000 01000000"), bytes.fromhex("01 04 0800 01000000"), b"GET / HTTP"]
)
def test_another_protocol_is_refused(data: bytes) -> None:
    with pytest.raises(SmuxError):
        list(Parser().feed(data))
