"""smux, version 1 (github.com/xtaci/smux): several streams over one.

A frame: version 1 | command 1 | length 2 | stream 4, little-endian, and so many bytes. The client's streams have odd
numbers. A stream that has ended on one side (FIN) may still carry what the other side says; the public ends close both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

VERSION = 1
_HEADER = struct.Struct("<BBHI")
HEADER = _HEADER.size
LARGEST = 32768
"""Bytes of one frame that we send, as the public ends do; 65,535 are taken."""


class Command(IntEnum):
    OPEN = 0
    END = 1
    DATA = 2
    NOTHING = 3


class SmuxError(ValueError):
    """These bytes are no smux; nothing that follows can be read."""


@dataclass(frozen=True, slots=True)
class Frame:
    command: int
    stream: int
    data: bytes = b""

    def encode(self) -> bytes:
        return _HEADER.pack(VERSION, self.command, len(self.data), self.stream) + self.data


def frames(stream: int, data: bytes) -> bytes:
    """These bytes of a stream, as frames."""
    if len(data) <= LARGEST:
        return _HEADER.pack(VERSION, Command.DATA, len(data), stream) + data
    parts = (data[start : start + LARGEST] for start in range(0, len(data), LARGEST))
    return b"".join(Frame(Command.DATA, stream, part).encode() for part in parts)


class Parser:
    """Frames from bytes that come in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """All frames that are whole now; raises SmuxError."""
        data = self._rest + data if self._rest else data
        start = 0
        while len(data) - start >= HEADER:
            version, command, length, stream = _HEADER.unpack_from(data, start)
            if version != VERSION or command > Command.NOTHING:
                self._rest = b""
                raise SmuxError(f"version {version}, command {command}: not smux 1")
            end = start + HEADER + length
            if end > len(data):
                break
            yield Frame(command, stream, data[start + HEADER : end])
            start = end
        self._rest = data[start:]
