"""The registries' own protocol below /v2/, in front of ministack, which stores manifests and layers.

Requests arrive by TLS under the registries' names, or on the endpoint itself: as ECR of the local cloud's account, or
as the registry in `?ns=` (the parameter of containerd for mirrors). https://github.com/opencontainers/distribution-spec
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from ministack import app as ministack_app
from ministack.core.responses import request_scope
from ministack.services import ecr

from localcloud.base import registries as names
from localcloud.base.context import ACCOUNT, REGION
from localcloud.services.ecr import access, faults
from localcloud.services.ecr.access import Access, Refusal
from localcloud.services.ecr.faults import Kind

CHUNK = 1 << 18
SLOW_BYTES, SLOW_SECONDS = 1 << 14, 1.0
"""A slow layer arrives in pieces of this size, with this pause between them."""
OWN = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
RETRY_AFTER = "30"
SIGNED = "X-Amz-Signature"
WRITES = ("POST", "PUT", "PATCH", "DELETE")
Answer = tuple[int, dict[str, str], bytes]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Registry:
    """An application that answers requests for registries, and passes others on."""

    def __init__(self, application: Application, given: Access, changed: Callable[[], None]) -> None:
        self._application, self._access, self._changed = application, given, changed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        registry, path = _registry_of(scope), str(scope.get("path", ""))
        if registry is None:
            await self._application(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = parse_qs(scope.get("query_string", b"").decode(), keep_blank_values=True)
        body = await _body(receive)
        if registry == names.LAYERS:
            answer, fault = self._layer(path, headers, query)
        else:
            account, region = names.scope_of(registry)
            with request_scope(account, region):
                answer, fault = await self._answer(registry, scope["method"], path, headers, query, body)
        await _send(answer, scope["method"], fault, send)

    async def _answer(
        self,
        registry: str,
        method: str,
        path: str,
        headers: dict[str, str],
        query: dict[str, list[str]],
        body: bytes,
    ) -> tuple[Answer, Kind | None]:
        if path == "/token" and not names.ECR.fullmatch(registry):
            return self._token(registry, headers, query), None
        _, repository, part = _parts(path)
        pushes = method in WRITES
        if refusal := self._access.refusal(registry, repository, part, headers, pushes=pushes):
            return _refuse(refusal), None
        fault = (
            None if pushes or not part else faults.take(f"{registry}/{repository}", is_layer=part == "blobs")
        )
        if fault in faults.REFUSALS:
            return _refuse(Refusal(*faults.REFUSALS[fault])), None
        if pushes:
            if repository not in ecr._repositories and self._access.is_root(headers):
                ecr._create_repository({"repositoryName": repository})
            if login := headers.get("x-localcloud-login"):
                ecr._repositories[repository][access.LOGIN] = login
            self._changed()
        if part == "blobs" and method == "GET" and names.ECR.fullmatch(registry) and "uploads" not in path:
            digest = path.rpartition("/")[2]
            if digest in ecr._layer_blobs.get(repository, {}):
                url = self.layer_url(registry, repository, digest)
                return (307, {"Location": url}, b""), fault
        answer = await ecr.handle_registry_request(method, path, headers, body, query)
        return _ranged(answer, headers) if part == "blobs" and method == "GET" else answer, fault

    def _token(self, registry: str, headers: Mapping[str, str], query: Mapping[str, list[str]]) -> Answer:
        """Return a token for the repository in `scope=repository:NAME:pull`."""
        found = re.fullmatch(r"repository:(?P<name>[^:]+):.*", (query.get("scope") or [""])[0])
        token = self._access.token(
            registry, found["name"] if found else "", access.basic(headers), time.time()
        )
        if token is None:
            return _refuse(Refusal(401, "UNAUTHORIZED", "incorrect username or password"))
        answer = {"token": token, "expires_in": access.TOKEN_SECONDS}
        return 200, {"Content-Type": "application/json"}, json.dumps(answer).encode()

    def layer_url(self, registry: str, repository: str, digest: str) -> str:
        """Return the address of a layer in ECR's own bucket, which needs no other key."""
        signature = self._access._signed(f"{registry}|{repository}|{digest}|{int(time.time()) + 3600}")
        return f"https://{names.LAYERS}/{registry}/{repository}/{digest}?{SIGNED}={signature}"

    def _layer(
        self, path: str, headers: Mapping[str, str], query: Mapping[str, list[str]]
    ) -> tuple[Answer, Kind | None]:
        found = self._access._verified((query.get(SIGNED) or [""])[0]).split("|")
        if "authorization" in headers:
            return (400, {}, b"<Error><Code>InvalidArgument</Code></Error>"), None
        if len(found) != 4 or path != f"/{'/'.join(found[:3])}":
            return (403, {}, b"<Error><Code>AccessDenied</Code></Error>"), None
        registry, repository, digest, _ = found
        with request_scope(*names.scope_of(registry)):
            content = ecr._layer_blobs.get(repository, {}).get(digest)
        if content is None:
            return (404, {}, b"<Error><Code>NoSuchKey</Code></Error>"), None
        kind = {"Content-Type": "application/octet-stream"}
        answer = _ranged((200, {**kind, "Content-Length": str(len(content))}, content), headers)
        return answer, faults.take(f"{registry}/{repository}", is_layer=True)


def _registry_of(scope: Scope) -> str | None:
    """Return the registry that a request is for, or None for another request."""
    if scope["type"] != "http":
        return None
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    host = host.partition(":")[0].lower()
    if scope.get("scheme") == "https":
        return names.registry_of(host)
    if not ministack_app._is_ecr_registry_path(str(scope["path"])):
        return None
    space = parse_qs(scope.get("query_string", b"").decode()).get("ns", [""])[0]
    return names.registry_of(space) if space else OWN


def _parts(path: str) -> tuple[str, str, str]:
    """Return the verb, the repository and the part (`manifests`, `blobs`, `tags` or nothing) of a path."""
    verb, repository, _ = ecr._parse_v2_path(path) or ("", "", "")
    part = "manifests" if verb == "manifest" else "blobs" if verb.startswith("blob") else ""
    return verb, repository, part or ("manifests" if verb == "tags_list" else "")


async def _body(receive: Receive) -> bytes:
    pieces, more = [], True
    while more:
        message = await receive()
        pieces.append(message.get("body", b""))
        more = bool(message.get("more_body"))
    return b"".join(pieces)


def _refuse(refusal: Refusal) -> Answer:
    error = {"code": refusal.code, "message": refusal.message, "detail": {}}
    headers = {"Content-Type": "application/json"}
    if refusal.challenge:
        headers["WWW-Authenticate"] = refusal.challenge
    if refusal.status == faults.REFUSALS[Kind.BUSY][0]:
        headers["Retry-After"] = RETRY_AFTER
    return refusal.status, headers, json.dumps({"errors": [error]}).encode()


def _ranged(answer: Answer, headers: Mapping[str, str]) -> Answer:
    """Return the part of a layer that the header Range names."""
    status, found, content = answer
    wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))
    if status != 200 or wanted is None:
        return answer
    first, last = int(wanted[1]), min(int(wanted[2] or len(content) - 1), len(content) - 1)
    if first > last:
        return 416, {"Content-Range": f"bytes */{len(content)}"}, b""
    part = content[first : last + 1]
    more = {"Content-Length": str(len(part)), "Content-Range": f"bytes {first}-{last}/{len(content)}"}
    return 206, found | more, part


async def _send(answer: Answer, method: str, fault: Kind | None, send: Send) -> None:
    status, headers, body = answer
    length = headers.pop("Content-Length", str(len(body)))
    if fault is Kind.TRUNCATED:
        body = body[: len(body) // 2]
    if fault is Kind.CORRUPT and body:
        body = bytes([body[0] ^ 0xFF]) + body[1:]
    pairs = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [*pairs, (b"content-length", length.encode())],
        }
    )
    step = SLOW_BYTES if fault is Kind.SLOW else CHUNK
    pieces: Any = () if method == "HEAD" else range(0, len(body), step)
    for first in pieces:
        await send({"type": "http.response.body", "body": body[first : first + step], "more_body": True})
        if fault is Kind.SLOW:
            await asyncio.sleep(SLOW_SECONDS)
    await send({"type": "http.response.body", "body": b""})
