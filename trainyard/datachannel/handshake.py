"""The handshake of a session: the agent sends a request, the client a response, and the agent a confirmation.

A shell of an agent without encryption has no handshake: its first message is output. `LARGEST` is an extension of ours:
an end that accepts larger payloads than the 1,024 bytes of the public client and agent announces it in its handshake.
The public ends ignore the field (docs/decisions/0049-sessions.md).
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
"""The payload size in bytes that every end accepts."""


@dataclass(frozen=True)
class Request:
    """The agent's request. `actions` are its requested actions by their type."""

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
        document = {
            "AgentVersion": self.agent_version,
            "RequestedClientActions": asked,
            LARGEST: self.largest,
        }
        return json.dumps(document).encode()


def request(payload: bytes) -> Request:
    """Parse a request. Raise MessageError if the payload is invalid."""
    document = fields(payload)
    asked = document.get("RequestedClientActions") or []
    if not isinstance(asked, list) or not all(isinstance(each, dict) for each in asked):
        raise MessageError("the handshake's request has no list of actions")
    actions = {str(each.get("ActionType", "")): each.get("ActionParameters") for each in asked}
    return Request(str(document.get("AgentVersion", "")), actions, _largest(document))


@dataclass(frozen=True)
class Response:
    """The client's response: the status of each requested action by its type, and errors."""

    client_version: str
    processed: Mapping[str, int] = field(default_factory=dict)
    errors: Sequence[str] = ()
    largest: int = SMALL

    def payload(self) -> bytes:
        done = [
            {"ActionType": name, "ActionStatus": status, "ActionResult": None, "Error": ""}
            for name, status in self.processed.items()
        ]
        document = {
            "ClientVersion": self.client_version,
            "ProcessedClientActions": done,
            "Errors": list(self.errors),
            LARGEST: self.largest,
        }
        return json.dumps(document).encode()


def response(payload: bytes) -> Response:
    """Parse a response. Raise MessageError if the payload is invalid."""
    document = fields(payload)
    done = document.get("ProcessedClientActions") or []
    if not isinstance(done, list) or not all(isinstance(each, dict) for each in done):
        raise MessageError("the handshake's response has no list of actions")
    processed = {str(each.get("ActionType", "")): int(each.get("ActionStatus") or 0) for each in done}
    errors = tuple(str(each) for each in document.get("Errors") or [])
    return Response(str(document.get("ClientVersion", "")), processed, errors, _largest(document))


@dataclass(frozen=True)
class Complete:
    """The agent's confirmation. `took` is in nanoseconds; `message` is for the user."""

    took: int
    message: str = ""

    def payload(self) -> bytes:
        return json.dumps({"HandshakeTimeToComplete": self.took, "CustomerMessage": self.message}).encode()


def complete(payload: bytes) -> Complete:
    """Parse a confirmation. Raise MessageError if the payload is invalid."""
    document = fields(payload)
    return Complete(
        int(document.get("HandshakeTimeToComplete") or 0), str(document.get("CustomerMessage") or "")
    )


def opening_text(request_id: str, token: str, client_id: str, client_version: str) -> str:
    """Return the first text that a client sends on a connection."""
    document = {
        "MessageSchemaVersion": "1.0",
        "RequestId": request_id,
        "TokenValue": token,
        "ClientId": client_id,
        "ClientVersion": client_version,
    }
    return json.dumps(document)


def is_newer(version: str, than: str) -> bool:
    """Compare versions, which are numbers between dots."""
    return _numbers(version) > _numbers(than)


def _numbers(version: str) -> list[int]:
    numbers = [int(part) if part.isdigit() else 0 for part in version.split(".")]
    return numbers + [0] * (4 - len(numbers))


def _largest(document: Mapping[str, Any]) -> int:
    found = document.get(LARGEST)
    return found if isinstance(found, int) and found >= SMALL else SMALL
