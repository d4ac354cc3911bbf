"""Server side of WebSocket framing (RFC 6455), without I/O."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterator

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
CONTINUED, FINAL, MASKED = 0x0, 0x80, 0x80
LARGEST = 4 << 20
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class WebSocketError(ValueError):
    """The other end violates the protocol. The connection must be closed."""


def accept(key: str) -> str:
    """Return the server's answer to a client's Sec-WebSocket-Key."""
    return base64.b64encode(hashlib.sha1(key.encode() + MAGIC, usedforsecurity=False).digest()).decode()


def encode(opcode: int, payload: bytes) -> bytes:
    """Encode a whole message in the form that servers send."""
    first, size = FINAL | opcode, len(payload)
    if size < 126:
        return bytes((first, size)) + payload
    if size < 1 << 16:
        return struct.pack(">BBH", first, 126, size) + payload
    return struct.pack(">BBQ", first, 127, size) + payload


class Parser:
    """An incremental parser of messages, including pings and closes between fragments."""

    def __init__(self, begun: bytes = b"") -> None:
        self._rest = bytearray(begun)
        self._opcode = CONTINUED
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield opcode and payload of each complete message. Raise WebSocketError on a violation."""
        self._rest += data
        while (frame := self._frame()) is not None:
            first, payload = frame
            opcode = first & 0x0F
            if opcode >= CLOSE:
                yield opcode, payload
                continue
            if (opcode == CONTINUED) is not bool(self._parts):
                raise WebSocketError("a message fragment out of order")
            self._opcode = opcode or self._opcode
            self._parts.append(payload)
            self._size += len(payload)
            if self._size > LARGEST:
                raise WebSocketError(f"a message larger than {LARGEST} bytes")
            if first & FINAL:
                parts, self._parts, self._size = self._parts, [], 0
                yield self._opcode, parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def rest(self) -> bytes:
        """Return the bytes of an incomplete frame."""
        return bytes(self._rest)

    def _frame(self) -> tuple[int, bytes] | None:
        rest = self._rest
        if len(rest) < 2:
            return None
        first, second = rest[0], rest[1]
        if not second & MASKED or first & 0x70:
            raise WebSocketError("an unmasked frame, or a frame of an extension")
        size, start = second & 0x7F, 2
        if size == 126:
            size, start = (struct.unpack_from(">H", rest, 2)[0] if len(rest) >= 4 else -1), 4
        elif size == 127:
            size, start = (struct.unpack_from(">Q", rest, 2)[0] if len(rest) >= 10 else -1), 10
        if size > LARGEST:
            raise WebSocketError(f"a frame larger than {LARGEST} bytes")
        end = start + 4 + size
        if size < 0 or len(rest) < end:
            return None
        mask, masked = bytes(rest[start : start + 4]), bytes(rest[start + 4 : end])
        del rest[:end]
        return first, unmask(masked, mask)


def unmask(data: bytes, mask: bytes) -> bytes:
    """Unmask the data as one large number, which is the only fast way without a library."""
    size = len(data)
    pattern = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(pattern, "little")).to_bytes(size, "little")
