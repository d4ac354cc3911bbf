"""One message of the data channel: a header of 120 bytes, big-endian, and a payload.

    header length 4 | type 32 | schema 4 | created 8 | sequence 8 | flags 8 | id 16 | SHA-256 32 | kind 4 | length 4

The header length that it says is 116: where the payload's length stands.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any
from uuid import UUID

INPUT = "input_stream_data"
"""From the client to the agent."""
OUTPUT = "output_stream_data"
"""From the agent to the client."""
ACKNOWLEDGE = "acknowledge"
CHANNEL_CLOSED = "channel_closed"
PAUSE = "pause_publication"
START = "start_publication"

SCHEMA = 1
FIRST, ACKNOWLEDGES = 1, 3
"""Flags: the first message of an agent's stream; every acknowledgement."""
_HEADER = struct.Struct(">I32sIQqQ16s32sII")
HEADER = _HEADER.size
SAID_LENGTH = HEADER - 4


class Kind(IntEnum):
    """What a payload is."""

    NONE = 0
    OUTPUT = 1
    ERROR = 2
    SIZE = 3
    PARAMETER = 4
    HANDSHAKE_REQUEST = 5
    HANDSHAKE_RESPONSE = 6
    HANDSHAKE_COMPLETE = 7
    ENCRYPTION_CHALLENGE_REQUEST = 8
    ENCRYPTION_CHALLENGE_RESPONSE = 9
    FLAG = 10
    STDERR = 11
    EXIT_CODE = 12


class Flag(IntEnum):
    """What a payload of the kind FLAG says, in four bytes."""

    DISCONNECT_FROM_PORT = 1
    TERMINATE_SESSION = 2
    CONNECT_TO_PORT_ERROR = 3

    @property
    def payload(self) -> bytes:
        return struct.pack(">I", self)


class MessageError(ValueError):
    """These bytes are no message; the text says why."""


@dataclass(frozen=True, slots=True)
class Message:
    """`created` is in milliseconds since 1970."""

    type: str
    sequence: int
    id: UUID
    created: int
    payload: bytes
    kind: int = Kind.NONE
    flags: int = 0

    def encode(self) -> bytes:
        """As it goes over the wire."""
        header = _HEADER.pack(
            SAID_LENGTH,
            self.type.encode().ljust(32),
            SCHEMA,
            self.created,
            self.sequence,
            self.flags,
            _turned(self.id.bytes),
            hashlib.sha256(self.payload).digest(),
            self.kind,
            len(self.payload),
        )
        return header + self.payload


def decode(data: bytes) -> Message:
    """The message of these bytes; raises MessageError. What it says of itself must be so: length and digest."""
    if len(data) < HEADER:
        raise MessageError(f"a message has at least {HEADER} bytes, this has {len(data)}")
    said, name, _schema, created, sequence, flags, number, digest, kind, length = _HEADER.unpack_from(data)
    if said != SAID_LENGTH:
        raise MessageError(f"a header has {SAID_LENGTH} bytes, this says {said}")
    payload = data[HEADER:]
    if len(payload) != length:
        raise MessageError(f"the header says {length} bytes of payload, there are {len(payload)}")
    if hashlib.sha256(payload).digest() != digest:
        raise MessageError("the payload is not what its digest says")
    try:
        kind_of_message = name.rstrip(b" \0").decode()
    except UnicodeDecodeError as error:
        raise MessageError("the type is no text") from error
    if not kind_of_message or created == 0:
        raise MessageError("the type or the time is missing")
    return Message(kind_of_message, sequence, UUID(bytes=_turned(number)), created, payload, kind, flags)


def _turned(number: bytes) -> bytes:
    """An id goes with its halves the other way round, as Java's UUID wrote them."""
    return number[8:] + number[:8]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What the payload of an `acknowledge` says: which message has come."""

    type: str
    id: str
    sequence: int

    @classmethod
    def of(cls, message: Message) -> Acknowledgement:
        return cls(message.type, str(message.id), message.sequence)

    def payload(self) -> bytes:
        said = {
            "AcknowledgedMessageType": self.type,
            "AcknowledgedMessageId": self.id,
            "AcknowledgedMessageSequenceNumber": self.sequence,
            "IsSequentialMessage": True,
        }
        return json.dumps(said).encode()

    def message(self, number: UUID, created: int) -> Message:
        """A message of its own: without a number in the stream, and never acknowledged itself."""
        return Message(ACKNOWLEDGE, 0, number, created, self.payload(), flags=ACKNOWLEDGES)


def acknowledgement(message: Message) -> Acknowledgement:
    """Raises MessageError where it is none."""
    if message.type != ACKNOWLEDGE:
        raise MessageError(f"this is {message.type}, no acknowledgement")
    said = fields(message.payload)
    return Acknowledgement(
        str(said.get("AcknowledgedMessageType", "")),
        str(said.get("AcknowledgedMessageId", "")),
        int(said.get("AcknowledgedMessageSequenceNumber", 0)),
    )


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """The session is over. `output` says why, where there is more to say than that."""

    session: str
    output: str
    target: str = ""

    def message(self, number: UUID, created: int) -> Message:
        said = {
            "MessageType": CHANNEL_CLOSED,
            "MessageId": str(number),
            "DestinationId": self.target,
            "SessionId": self.session,
            "SchemaVersion": SCHEMA,
            "CreatedDate": str(created),
            "Output": self.output,
        }
        return Message(CHANNEL_CLOSED, 0, number, created, json.dumps(said).encode())


def channel_closed(message: Message) -> ChannelClosed:
    """Raises MessageError where it is none."""
    if message.type != CHANNEL_CLOSED:
        raise MessageError(f"this is {message.type}, not {CHANNEL_CLOSED}")
    said = fields(message.payload)
    return ChannelClosed(
        str(said.get("SessionId", "")), str(said.get("Output", "")), str(said.get("DestinationId", ""))
    )


@dataclass(frozen=True, slots=True)
class Size:
    """A terminal's."""

    columns: int
    rows: int

    def payload(self) -> bytes:
        return json.dumps({"cols": self.columns, "rows": self.rows}).encode()


def size(payload: bytes) -> Size:
    said = fields(payload)
    return Size(int(said.get("cols", 0)), int(said.get("rows", 0)))


def flag(payload: bytes) -> int:
    """The number of a payload of the kind FLAG; raises MessageError."""
    if len(payload) != 4:
        raise MessageError(f"a flag has four bytes, this has {len(payload)}")
    return int.from_bytes(payload, "big")


def fields(payload: bytes) -> dict[str, Any]:
    """A payload that is a JSON object; raises MessageError."""
    try:
        said = json.loads(payload)
    except ValueError as error:
        raise MessageError(f"not JSON: {error}") from error
    if not isinstance(said, dict):
        raise MessageError(f"a JSON object was expected, not {type(said).__name__}")
    return said
