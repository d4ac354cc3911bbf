"""`/_localcloud/`: the interface for tests and the command line to the local cloud itself.

Routes take and return JSON and require the root's key (HTTP Basic authentication: `curl -u ID:SECRET`). Requests on the
hosts' address are always refused, because hosts reach the endpoint too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from localcloud.base.root_key import RootKey
from localcloud.machine.hypervisor import ENDPOINT_ADDRESS

PREFIX = "/_localcloud"
NO_KEY = (
    "the admin interface of the local cloud needs its root's key, and this request has none or another. "
    "Nothing was read or done. "
    "`trainyard local env` prints the key; send it as `curl -u $AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY`."
)
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Json = dict[str, Any]
Action = Callable[[Json], Json]

log = logging.getLogger(__name__)
_routes: dict[tuple[str, str], Action] = {}


class Refused(Exception):  # noqa: N818 - `raise Refused(why)` is the sentence
    """The request cannot be carried out. The message is for the user."""


def route(method: str, path: str, action: Action) -> None:
    """Answer `method /_localcloud<path>` with the result of `action` for the request's JSON object.

    `action` runs in a worker thread. `Refused` becomes a 400 with its message, any other exception a 500.
    """
    _routes[method, path] = action


def with_admin_routes(application: Application, root: RootKey) -> Application:
    """Put the admin routes in front of an application. They require the root's key."""
    expected = root.as_basic().encode()

    async def application_with_routes(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not str(scope["path"]).startswith(PREFIX + "/"):
            await application(scope, receive, send)
            return
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) == 1 and secrets.compare_digest(given[0], expected):
            status, answer = await _answer(scope, receive)
        else:
            status, answer = 403, {"error": NO_KEY}
        body = json.dumps(answer, default=str).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return application_with_routes


async def _answer(scope: Scope, receive: Receive) -> tuple[int, Json]:
    if (scope.get("server") or ("",))[0] == ENDPOINT_ADDRESS:
        return 403, {"error": "hosts may not steer the local cloud they run on"}
    path = str(scope["path"])[len(PREFIX) :]
    action = _routes.get((scope["method"], path))
    if action is None:
        known = ", ".join(sorted(f"{method} {PREFIX}{where}" for method, where in _routes))
        return 404, {"error": f"no such route: {scope['method']} {PREFIX}{path}. There are: {known}"}
    try:
        return 200, await asyncio.to_thread(action, await _json_object(receive))
    except Refused as refused:
        return 400, {"error": str(refused)}
    except Exception as error:
        log.exception("%s %s failed", scope["method"], path)
        return 500, {"error": f"{type(error).__name__}: {error}"}


async def _json_object(receive: Receive) -> Json:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = bool(message.get("more_body"))
    try:
        parsed = json.loads(body or b"{}")
    except ValueError as error:
        raise Refused(f"the body is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise Refused(f"the body must be a JSON object, not {type(parsed).__name__}")
    return parsed
