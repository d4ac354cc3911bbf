"""Services that the local cloud does not have: an error the client can read, instead of one without words."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from localcloud.patches import MINISTACK

Answer = tuple[int, dict[str, str], bytes]
Handler = Callable[..., Awaitable[Answer]]


def install() -> None:
    """Let ministack ask us for the services it has no handler of."""
    MINISTACK.replace("app:SERVICE_HANDLERS", Handlers(MINISTACK.stock("app:SERVICE_HANDLERS")))


class Handlers(dict[str, Handler]):
    """ministack's handlers by service; `get` finds one for every service."""

    def get(self, service: str, default: Any = None) -> Any:
        return super().get(service) or refusal(service)


def refusal(service: str) -> Handler:
    """Answers UnsupportedOperation in the protocol the client speaks."""
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
