"""The gate against web pages: no page can call the local cloud, whatever its origin or DNS name.

It checks only headers, before a body is read and before any handler or admin route. A browser sends the page's `Origin`
with every request that may change state, and the name in the address as `Host`. No answer has a CORS header.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable

from localcloud.base import registries
from localcloud.machine.hypervisor import ENDPOINT_ADDRESS
from localcloud.server.admin import Application, Receive, Scope, Send

HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:@/\\\s]+))(?::\d{1,5})?")
LOCAL_DOMAIN = "localhost"
"""Resolvers map this name and its subdomains, such as a bucket's, only to the local machine (RFC 6761)."""
CORS = b"access-control-"

Headers = Iterable[tuple[bytes, bytes]]


def with_gate(application: Application) -> Application:
    """Put the gate in front of an application."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await application(scope, receive, send)
        elif scope["type"] != "http":  # WebSockets of sessions bypass the gate: `connections` hands them over
            await send({"type": "websocket.close", "code": 1008})
        elif why := refusal(
            scope["headers"],
            preflight=scope["method"] == "OPTIONS",
            names=registries.ALL if scope.get("scheme") == "https" else frozenset(),
        ):
            await _refuse(why, send)
        else:
            await application(scope, receive, _without_cors(send))

    return guarded


def refusal(headers: Headers, *, preflight: bool = False, names: Collection[str] = frozenset()) -> str | None:
    """Return why a request with these headers is refused, or None. `names` are further names of the local cloud: those
    of registries, on a socket that only hosts and functions reach."""
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
    if len(hosts) != 1 or not (hosts[0].lower() in names or is_own_host(hosts[0])):
        return (
            f"the host {', '.join(hosts)!r} does not belong to this local cloud. Nothing was read or done. "
            "Use the address that `trainyard local env` prints."
        )
    if preflight or (origins and origins != [f"http://{hosts[0]}"]):
        return (
            f"a web page of {', '.join(origins)!r} sent this request, and the local cloud serves no web pages. "
            "Nothing was read or done. Use a program with the keys that `trainyard local env` prints."
        )
    return None


def is_own_host(host: str) -> bool:
    """Return True for a loopback address, the hosts' address of the endpoint, localhost and names below it."""
    found = HOST.fullmatch(host)
    if found is None:
        return False
    name = (found["name"] or found["v6"]).lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return found["v6"] is None and (name == LOCAL_DOMAIN or name.endswith(f".{LOCAL_DOMAIN}"))
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    return address.is_loopback or str(address) == ENDPOINT_ADDRESS


async def _refuse(why: str, send: Send) -> None:
    body = f"403: {why}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _without_cors(send: Send) -> Send:
    async def sending(message: Scope) -> None:
        if message["type"] == "http.response.start":
            kept = [pair for pair in message["headers"] if not pair[0].lower().startswith(CORS)]
            message = {**message, "headers": kept}
        await send(message)

    return sending
