"""What both ends agree on before a session begins: the agent asks, the client answers, the agent says that it is done.

A shell of an agent that encrypts nothing has no handshake: its first message is output.

`LARGEST` is ours: an end that takes larger payloads than the 1,024 bytes of the public client and agent says so in its
handshake, and is then sent them. Neither of those knows the word, and both pass over it
(docs/decisions/0049-sessions.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainyard.datachannel.message import MessageError, fields

SESSION_TYPE, ENCRYPTION = "SessionType", "KMSEncryption"
SUCCEEDED, FAILED, UNSUPPORTED = 1, 2, 3
PORT, SHELL, INTERACTIVE, NON_INTERACTIVE = (
    "Port",
    "Standard_Stream",
    "InteractiveCommands",
    "NonInteractiveCommands",
)
LOCAL_FORWARDING = "LocalPortForwarding"
LARGEST = "TrainyardLargestPayload"
SMALL = 1024
"""Bytes of payload that every end takes."""


@dataclass(frozen=True)
class Request:
    """The agent's. `actions` are what it asks of the client, by their type."""

    agent_version: str
    actions: Mapping[str, Any]
    largest: int = SMALL

    @classmethod
    def for_session(
        cls, agent_version: str, kind: str, properties: Mapping[str, Any], largest: int
    ) -> Request:
        asked = {SESSION_TYPE: {"SessionType": kind, "Properties": dict(properties)}}
        return cls(agent_version, asked, largest)

    @property
    def session_type(self) -> str:
        return str((self.actions.get(SESSION_TYPE) or {}).get("SessionType", ""))

    @property
    def properties(self) -> Mapping[str, Any]:
        found = (self.actions.get(SESSION_TYPE) or {}).get("Properties")
        return found if isinstance(found, dict) else {}

    def payload(self) -> bytes:
        asked = [
            {"ActionType": name, "ActionParameters": parameters} for name, parameters in self.actions.items()
        ]
        said = {"AgentVersion": self.agent_version, "RequestedClientActions": asked, LARGEST: self.largest}
        return json.dumps(said).encode()


def request(payload: bytes) -> Request:
    """Raises MessageError."""
    said = fields(payload)
    asked = said.get("RequestedClientActions") or []
    if not isinstance(asked, list) or not all(isinstance(each, dict) for each in asked):
        raise MessageError("the handshake asks for no list of actions")
    actions = {str(each.get("ActionType", "")): each.get("ActionParameters") for each in asked}
    return Request(str(said.get("AgentVersion", "")), actions, _largest(said))


@dataclass(frozen=True)
class Response:
    """The client's: by the type of the action, whether it could do it; and what went wrong."""

    client_version: str
    processed: Mapping[str, int] = field(default_factory=dict)
    errors: Sequence[str] = ()
    largest: int = SMALL

    def payload(self) -> bytes:
        done = [
            {"ActionType": name, "ActionStatus": status, "ActionResult": None, "Error": ""}
            for name, status in self.processed.items()
        ]
        said = {
            "ClientVersion": self.client_version,
            "ProcessedClientActions": done,
            "Errors": list(self.errors),
            LARGEST: self.largest,
        }
        return json.dumps(said).encode()


def response(payload: bytes) -> Response:
    """Raises MessageError."""
    said = fields(payload)
    done = said.get("ProcessedClientActions") or []
    if not isinstance(done, list) or not all(isinstance(each, dict) for each in done):
        raise MessageError("the handshake's answer has no list of actions")
    processed = {str(each.get("ActionType", "")): int(each.get("ActionStatus") or 0) for each in done}
    errors = tuple(str(each) for each in said.get("Errors") or [])
    return Response(str(said.get("ClientVersion", "")), processed, errors, _largest(said))


@dataclass(frozen=True)
class Complete:
    """`took` is in nanoseconds; `message` is for the person."""

    took: int
    message: str = ""

    def payload(self) -> bytes:
        return json.dumps({"HandshakeTimeToComplete": self.took, "CustomerMessage": self.message}).encode()


def complete(payload: bytes) -> Complete:
    """Raises MessageError."""
    said = fields(payload)
    return Complete(int(said.get("HandshakeTimeToComplete") or 0), str(said.get("CustomerMessage") or ""))


def opening(request_id: str, token: str, client_id: str, client_version: str) -> str:
    """The first thing a client says on a connection, as text."""
    said = {
        "MessageSchemaVersion": "1.0",
        "RequestId": request_id,
        "TokenValue": token,
        "ClientId": client_id,
        "ClientVersion": client_version,
    }
    return json.dumps(said)


def is_newer(version: str, than: str) -> bool:
    """Versions are numbers between dots."""
    return _numbers(version) > _numbers(than)


def _numbers(version: str) -> list[int]:
    numbers = [int(part) if part.isdigit() else 0 for part in version.split(".")]
    return numbers + [0] * (4 - len(numbers))


def _largest(said: Mapping[str, Any]) -> int:
    found = said.get(LARGEST)
    return found if isinstance(found, int) and found >= SMALL else SMALL
