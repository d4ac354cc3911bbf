"""A readable error for services that the local cloud lacks."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from localcloud.patches import MINISTACK

Answer = tuple[int, dict[str, str], bytes]
Handler = Callable[..., Awaitable[Answer]]


def install() -> None:
    """Replace ministack's registry of handlers."""
    MINISTACK.replace("app:SERVICE_HANDLERS", Handlers(MINISTACK.stock("app:SERVICE_HANDLERS")))


class Handlers(dict[str, Handler]):
    """ministack's handlers by service. `get` returns a handler for every service."""

    def get(self, service: str, default: Any = None) -> Any:
        return super().get(service) or refusal(service)


def refusal(service: str) -> Handler:
    """Return a handler that answers UnsupportedOperation in the client's protocol."""
    message = f"the local cloud has no service {service!r}"

    async def refuse(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
    ) -> Answer:
        if "x-www-form-urlencoded" not in headers.get("content-type", ""):
            document = json.dumps({"__type": "UnsupportedOperation", "message": message})
            wanted = {"Content-Type": "application/json", "x-amzn-errortype": "UnsupportedOperation"}
            return 400, wanted, document.encode()
        error = f"<Error><Code>UnsupportedOperation</Code><Message>{message}</Message></Error>"
        return 400, {"Content-Type": "text/xml"}, f"<ErrorResponse>{error}</ErrorResponse>".encode()

    return refuse
