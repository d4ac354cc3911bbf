"""smux, version 1 (github.com/xtaci/smux): several streams over one connection.

A frame has the fields version 1 | command 1 | length 2 | stream 4, little-endian, and data of that length. The client's
streams have odd numbers. After a FIN of one side, the other side can still send; the public ends close both directions.
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
"""The data bytes of one frame that these ends send, as the public ends do. Up to 65,535 are accepted."""


class Command(IntEnum):
    OPEN = 0
    END = 1
    DATA = 2
    NOTHING = 3


class SmuxError(ValueError):
    """Bytes that are not smux. The bytes after them cannot be read either."""


@dataclass(frozen=True, slots=True)
class Frame:
    command: int
    stream: int
    data: bytes = b""

    def encode(self) -> bytes:
        return _HEADER.pack(VERSION, self.command, len(self.data), self.stream) + self.data


def frames(stream: int, data: bytes) -> bytes:
    """Return the data of a stream as frames."""
    if len(data) <= LARGEST:
        return _HEADER.pack(VERSION, Command.DATA, len(data), stream) + data
    parts = (data[start : start + LARGEST] for start in range(0, len(data), LARGEST))
    return b"".join(Frame(Command.DATA, stream, part).encode() for part in parts)


class Parser:
    """A parser of frames from bytes that arrive in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield all frames that are complete. Raise SmuxError for invalid bytes."""
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
