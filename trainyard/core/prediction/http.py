"""Requests and answers as a function URL passes them to its function."""

import base64
import binascii
import json
from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from trainyard.protocol.predictions import (
    EXPLAIN_HEADER,
    KEY_HEADER,
    MARGIN_BYTES,
    MOST_BYTES,
    RETRY_HEADER,
    VERSION_HEADER,
)
from trainyard.protocol.serving import HOST_HEADER, WAKE_SECONDS
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_bytes
from trainyard.values.text import printable

MOST_CHARACTERS = 2000


class Status(IntEnum):
    OK = 200
    BAD_REQUEST = 400
    NOT_FOUND = 404
    NOT_READY = 409
    TOO_LARGE = 413
    UNAVAILABLE = 503
    FAILED = 500
    NO_MEMORY = 507


class RefusedError(Exception):
    """A request that gets no prediction. The message is the answer."""

    def __init__(self, status: Status, message: str, *, retry_seconds: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_seconds = status, retry_seconds


class HostNeededError(RefusedError):
    """Only a host with TensorFlow runs the version."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(Status.UNAVAILABLE, message, retry_seconds=WAKE_SECONDS)
        self.number = number


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    method: str
    path: str
    body: str = ""
    key: str = ""
    """The value that decides between the default version and a canary."""
    explain: bool = False
    """True if the answer has a header about how it was made."""


def request_of(
    method: str, path: str, body: str, *, is_encoded: bool, headers: Mapping[str, str] = MappingProxyType({})
) -> HttpRequest:
    """Read a request that a function URL has passed. Raises RefusedError."""
    if is_encoded:
        try:
            body = base64.b64decode(body, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise RefusedError(Status.BAD_REQUEST, f"the request is not text in UTF-8: {error}") from error
    if (size := len(body.encode())) > MOST_BYTES - MARGIN_BYTES:
        raise RefusedError(Status.TOO_LARGE, too_large(size))
    known = {name.lower(): value for name, value in headers.items()}
    key, explain = known.get(KEY_HEADER.lower(), body), EXPLAIN_HEADER.lower() in known
    return HttpRequest(method=method, path=unquote(path), body=body, key=key, explain=explain)


def too_large(size: int) -> str:
    return (
        f"the request has {format_bytes(size)}, more than the {format_bytes(MOST_BYTES)} that Lambda accepts: send "
        "fewer rows at once"
    )


def answer(
    document: Mapping[str, Any],
    *,
    version: int | None = None,
    most: int | None = MOST_BYTES - MARGIN_BYTES,
    explained: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return an answer of at most `most` bytes, in the form of a function URL. Headers name the version and explain
    the answer."""
    body = json.dumps(document)
    if most is not None and len(body) > most:
        said = f"the answer has {format_bytes(len(body))}, more than Lambda returns: send fewer rows at once"
        return refusal(RefusedError(Status.TOO_LARGE, said))
    about = {} if version is None else {VERSION_HEADER: str(version)}
    if explained is not None:
        about[EXPLAIN_HEADER] = json.dumps(explained)
    return _answer(Status.OK, body, about)


def refusal(error: RefusedError) -> dict[str, Any]:
    headers = {} if error.retry_seconds is None else {RETRY_HEADER: str(error.retry_seconds)}
    if isinstance(error, HostNeededError):
        headers[HOST_HEADER] = str(error.number)
    return _answer(error.status, json.dumps({"error": printable(str(error), MOST_CHARACTERS)}), headers)


def _answer(status: Status, body: str, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "statusCode": int(status),
        "headers": {"Content-Type": "application/json", **headers},
        "body": body,
        "isBase64Encoded": False,
    }
