"""Messages, with the values in the tests of aws/session-manager-plugin and aws/amazon-ssm-agent.

(src/message/messageparser_test.go; agent/session/contracts)
"""

import hashlib
import json
import struct
from dataclasses import replace
from uuid import UUID

import pytest

from trainyard.datachannel import handshake, message
from trainyard.datachannel.handshake import Complete, Request, Response
from trainyard.datachannel.message import (
    Acknowledgement,
    ChannelClosed,
    Flag,
    Kind,
    Message,
    MessageError,
    Size,
)

# The values of the public tests.
ID = UUID("dd01e56b-ff48-483e-a508-b5f073f31b16")
CREATED = 1503434274948
PAYLOAD = b"payload"
PUBLIC = Message(message.INPUT, 1, ID, CREATED, PAYLOAD, flags=2)


def test_each_field_stands_where_the_public_client_looks_for_it() -> None:
    data = PUBLIC.encode()
    assert struct.unpack_from(">I", data, 0) == (116,)
    assert data[4:36] == b"input_stream_data".ljust(32)
    assert struct.unpack_from(">I", data, 36) == (1,)
    assert struct.unpack_from(">Q", data, 40) == (CREATED,)
    assert struct.unpack_from(">q", data, 48) == (1,)
    assert struct.unpack_from(">Q", data, 56) == (2,)
    assert data[80:112] == hashlib.sha256(PAYLOAD).digest()
    assert struct.unpack_from(">II", data, 112) == (0, 7)
    assert data[120:] == PAYLOAD


def test_the_halves_of_an_id_are_the_other_way_round() -> None:
    assert PUBLIC.encode()[64:80].hex() == "a508b5f073f31b16" + "dd01e56bff48483e"


def test_what_was_encoded_is_decoded() -> None:
    assert message.decode(PUBLIC.encode()) == PUBLIC


def test_bytes_that_are_written_down_are_read() -> None:
    """The bytes follow the tables of the public sources, not our own encoder."""
    data = (
        struct.pack(">I", 116)
        + b"output_stream_data              "
        + struct.pack(">IQqQ", 1, CREATED, 7, 0)
        + bytes.fromhex("a508b5f073f31b16dd01e56bff48483e")
        + hashlib.sha256(b"$ ").digest()
        + struct.pack(">II", 1, 2)
        + b"$ "
    )
    found = message.decode(data)
    assert (found.type, found.sequence, found.id, found.kind, found.payload) == (
        message.OUTPUT,
        7,
        ID,
        Kind.OUTPUT,
        b"$ ",
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "at least 120"),
        (PUBLIC.encode()[:119], "at least 120"),
        (PUBLIC.encode()[:-1], "there are 6"),
        (PUBLIC.encode() + b"!", "there are 8"),
        (PUBLIC.encode()[:-1] + b"X", "digest"),
        (b"\0\0\0\x00" + PUBLIC.encode()[4:], "a header has 116"),
        (replace(PUBLIC, type="").encode(), "type or the time"),
        (replace(PUBLIC, created=0).encode(), "type or the time"),
        (PUBLIC.encode()[:4] + b"\xff" * 32 + PUBLIC.encode()[36:], "not a text"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        message.decode(data)


def test_an_acknowledgement_names_the_message_that_came() -> None:
    came = replace(PUBLIC, sequence=2)
    sent = Acknowledgement.of(came).message(ID, CREATED)
    assert (sent.type, sent.sequence, sent.flags, sent.kind) == (message.ACKNOWLEDGE, 0, 3, 0)
    assert json.loads(sent.payload) == {
        "AcknowledgedMessageType": "input_stream_data",
        "AcknowledgedMessageId": "dd01e56b-ff48-483e-a508-b5f073f31b16",
        "AcknowledgedMessageSequenceNumber": 2,
        "IsSequentialMessage": True,
    }
    assert message.acknowledgement(message.decode(sent.encode())) == Acknowledgement.of(came)


def test_a_payload_is_no_acknowledgement() -> None:
    for wrong in (
        PUBLIC,
        replace(PUBLIC, type=message.ACKNOWLEDGE),
        replace(PUBLIC, type=message.ACKNOWLEDGE, payload=b"[]"),
    ):
        with pytest.raises(MessageError):
            message.acknowledgement(wrong)


def test_a_channel_says_why_it_closes() -> None:
    sent = {
        "MessageType": "channel_closed",
        "MessageId": str(ID),
        "CreatedDate": str(CREATED),
        "SessionId": "sessionId_01234567890abcedf",
        "SchemaVersion": 1,
        "Output": "payload",
    }
    public = replace(PUBLIC, type=message.CHANNEL_CLOSED, payload=json.dumps(sent).encode())
    assert message.channel_closed(public) == ChannelClosed("sessionId_01234567890abcedf", "payload")
    own = ChannelClosed("s", "idle", "i-1").message(ID, CREATED)
    assert json.loads(own.payload) | {
        "SessionId": "s",
        "Output": "idle",
        "DestinationId": "i-1",
    } == json.loads(own.payload)
    with pytest.raises(MessageError):
        message.channel_closed(PUBLIC)


def test_the_publics_handshake_is_understood() -> None:
    action = '{"ActionType": "start", "ActionParameters": {"name": "richard"}}'
    text = f'{{"AgentVersion": "3.0", "RequestedClientActions": [{action}]}}'
    found = handshake.request(text.encode())
    assert (found.agent_version, found.actions, found.largest) == (
        "3.0",
        {"start": {"name": "richard"}},
        1024,
    )
    done = handshake.complete(
        b'{"HandshakeTimeToComplete": 1000000, "CustomerMessage": "Handshake Complete"}'
    )
    assert done == Complete(1000000, "Handshake Complete")


def test_larger_payloads_are_for_ends_that_say_so() -> None:
    asked = Request.for_session("3.3", handshake.PORT, {"portNumber": "80"}, 65536)
    assert handshake.request(asked.payload()) == asked
    assert (asked.session_type, asked.properties) == ("Port", {"portNumber": "80"})
    answered = Response("1.3", {"SessionType": handshake.SUCCEEDED}, ("no",), 65536)
    assert handshake.response(answered.payload()) == answered
    assert handshake.response(b'{"ClientVersion": "1.2.0.0"}').largest == 1024
    assert handshake.response(b'{"TrainyardLargestPayload": "much"}').largest == 1024


@pytest.mark.parametrize(
    "payload", [b"payload", b"[]", b'{"RequestedClientActions": 1}', b'{"RequestedClientActions": [1]}']
)
def test_what_is_no_handshake_is_refused(payload: bytes) -> None:
    with pytest.raises(MessageError):
        handshake.request(payload)


def test_flags_and_sizes_are_four_bytes_and_json() -> None:
    assert Flag.TERMINATE_SESSION.payload == b"\0\0\0\x02"
    assert message.flag(b"\0\0\0\x03") == Flag.CONNECT_TO_PORT_ERROR
    with pytest.raises(MessageError):
        message.flag(b"\x03")
    assert json.loads(Size(300, 100).payload()) == {"cols": 300, "rows": 100}
    assert message.size(b'{"cols": 80, "rows": 24}') == Size(80, 24)


@pytest.mark.parametrize(
    ("version", "than", "is_newer"),
    [
        ("3.1.0.0", "3.0.196.0", True),
        ("3.0.196.0", "3.0.196.0", False),
        ("3.0.20", "3.0.196.0", False),
        ("1.1.70", "1.1.69.9", True),
        ("nonsense", "1.0", False),
    ],
)
def test_versions_are_numbers(version: str, than: str, is_newer: bool) -> None:
    assert handshake.is_newer(version, than) is is_newer
