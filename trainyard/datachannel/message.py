"""One message of the data channel: a header of 120 bytes, big-endian, and a payload.

  header length 4 | type 32 | schema 4 | created 8 | sequence 8 | flags 8 | id 16 | SHA-256 32 | kind 4 | length 4

The header length in the message is 116, the offset of the payload's length.
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
"""The type of messages from the client to the agent."""
OUTPUT = "output_stream_data"
"""The type of messages from the agent to the client."""
ACKNOWLEDGE = "acknowledge"
CHANNEL_CLOSED = "channel_closed"
PAUSE = "pause_publication"
START = "start_publication"

SCHEMA = 1
FIRST, ACKNOWLEDGES = 1, 3
"""Flags: FIRST marks the first message of an agent's stream, ACKNOWLEDGES every acknowledgement."""
_HEADER = struct.Struct(">I32sIQqQ16s32sII")
HEADER = _HEADER.size
DECLARED_LENGTH = HEADER - 4


class Kind(IntEnum):
    """The kind of a payload."""

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
    """The payload of the kind FLAG, in four bytes."""

    DISCONNECT_FROM_PORT = 1
    TERMINATE_SESSION = 2
    CONNECT_TO_PORT_ERROR = 3

    @property
    def payload(self) -> bytes:
        return struct.pack(">I", self)


class MessageError(ValueError):
    """Bytes that are not a valid message."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message. `created` is in milliseconds since 1970."""

    type: str
    sequence: int
    id: UUID
    created: int
    payload: bytes
    kind: int = Kind.NONE
    flags: int = 0

    def encode(self) -> bytes:
        """Return the message as bytes."""
        header = _HEADER.pack(
            DECLARED_LENGTH,
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
    """Parse a message. Raise MessageError if the bytes are invalid, or if length or digest do not match."""
    if len(data) < HEADER:
        raise MessageError(f"a message has at least {HEADER} bytes, this has {len(data)}")
    document, name, _schema, created, sequence, flags, number, digest, kind, length = _HEADER.unpack_from(
        data
    )
    if document != DECLARED_LENGTH:
        raise MessageError(f"a header has {DECLARED_LENGTH} bytes, this one declares {document}")
    payload = data[HEADER:]
    if len(payload) != length:
        raise MessageError(f"the header declares {length} bytes of payload, there are {len(payload)}")
    if hashlib.sha256(payload).digest() != digest:
        raise MessageError("the payload does not match its digest")
    try:
        kind_of_message = name.rstrip(b" \0").decode()
    except UnicodeDecodeError as error:
        raise MessageError("the type is not a text") from error
    if not kind_of_message or created == 0:
        raise MessageError("the type or the time is missing")
    return Message(kind_of_message, sequence, UUID(bytes=_turned(number)), created, payload, kind, flags)


def _turned(number: bytes) -> bytes:
    """Swap the halves of an id, because Java's UUID writes them in this order."""
    return number[8:] + number[:8]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The payload of an `acknowledge`: the message that has arrived."""

    type: str
    id: str
    sequence: int

    @classmethod
    def of(cls, message: Message) -> Acknowledgement:
        return cls(message.type, str(message.id), message.sequence)

    def payload(self) -> bytes:
        document = {
            "AcknowledgedMessageType": self.type,
            "AcknowledgedMessageId": self.id,
            "AcknowledgedMessageSequenceNumber": self.sequence,
            "IsSequentialMessage": True,
        }
        return json.dumps(document).encode()

    def message(self, number: UUID, created: int) -> Message:
        """Return the acknowledgement as a message without a number. It is never acknowledged itself."""
        return Message(ACKNOWLEDGE, 0, number, created, self.payload(), flags=ACKNOWLEDGES)


def acknowledgement(message: Message) -> Acknowledgement:
    """Parse an acknowledgement. Raise MessageError for any other message."""
    if message.type != ACKNOWLEDGE:
        raise MessageError(f"this is {message.type}, not an acknowledgement")
    document = fields(message.payload)
    return Acknowledgement(
        str(document.get("AcknowledgedMessageType", "")),
        str(document.get("AcknowledgedMessageId", "")),
        int(document.get("AcknowledgedMessageSequenceNumber", 0)),
    )


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """The message that ends the session. `output` contains the reason, if there is one."""

    session: str
    output: str
    target: str = ""

    def message(self, number: UUID, created: int) -> Message:
        document = {
            "MessageType": CHANNEL_CLOSED,
            "MessageId": str(number),
            "DestinationId": self.target,
            "SessionId": self.session,
            "SchemaVersion": SCHEMA,
            "CreatedDate": str(created),
            "Output": self.output,
        }
        return Message(CHANNEL_CLOSED, 0, number, created, json.dumps(document).encode())


def channel_closed(message: Message) -> ChannelClosed:
    """Parse a message of the type channel_closed. Raise MessageError for any other message."""
    if message.type != CHANNEL_CLOSED:
        raise MessageError(f"this is {message.type}, not {CHANNEL_CLOSED}")
    document = fields(message.payload)
    return ChannelClosed(
        str(document.get("SessionId", "")),
        str(document.get("Output", "")),
        str(document.get("DestinationId", "")),
    )


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a terminal."""

    columns: int
    rows: int

    def payload(self) -> bytes:
        return json.dumps({"cols": self.columns, "rows": self.rows}).encode()


def size(payload: bytes) -> Size:
    document = fields(payload)
    return Size(int(document.get("cols", 0)), int(document.get("rows", 0)))


def flag(payload: bytes) -> int:
    """Return the number of a payload of the kind FLAG. Raise MessageError if it is invalid."""
    if len(payload) != 4:
        raise MessageError(f"a flag has four bytes, this has {len(payload)}")
    return int.from_bytes(payload, "big")


def fields(payload: bytes) -> dict[str, Any]:
    """Parse a payload that is a JSON object. Raise MessageError if it is not."""
    try:
        document = json.loads(payload)
    except ValueError as error:
        raise MessageError(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise MessageError(f"a JSON object was expected, not {type(document).__name__}")
    return document
