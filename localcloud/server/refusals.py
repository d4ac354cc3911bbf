"""Errors in a service's own format, for requests that are refused in front of all services."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ministack.core.iam_actions import access_denied_response
from ministack.core.responses import new_uuid

from localcloud.patches import MINISTACK

NO_WORDS = "(no words)"
"""The message of errors for which AWS has none. ministack replaces an empty message with its own."""
Answer = tuple[int, dict[str, str], bytes]
Handler = Callable[[str, str, Mapping[str, str], bytes, Mapping[str, Any]], Awaitable[Answer]]


def wrap_services(around: Callable[[str, Handler], Handler]) -> None:
    """Wrap the handler of every service: `around` receives the name and the handler."""
    handlers = MINISTACK.stock("app:SERVICE_HANDLERS")
    MINISTACK.extend("app:SERVICE_HANDLERS", {name: around(name, each) for name, each in handlers.items()})


def answer(
    service: str, headers: Mapping[str, str], code: str, message: str, status: int | None = None
) -> Answer:
    """Return an error that a client of this service can parse. `status` defaults to the status of an access denial."""
    denied, answered, body = access_denied_response(
        service, "", "", new_uuid(), error_code=code, message=message or NO_WORDS, headers=dict(headers)
    )
    return status or denied, answered, body.replace(NO_WORDS.encode(), b"")
