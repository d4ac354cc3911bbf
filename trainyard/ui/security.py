"""Access control: only the user with the address that the command printed can use the page.

The token is in the fragment of the address, which browsers do not send. `static/enter.js` keeps it in localStorage,
which is separate for each port, and sends it as a header with each request. A cookie would go to every port of
127.0.0.1, and so to the servers of other users of this computer. Navigations carry no header: they get an empty page,
whose script requests the content with the header. The `Host` header is checked against DNS rebinding. Only a POST with
the page's own `Origin` changes anything.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

READS = ("GET", "HEAD")
TOKEN_HEADER = "X-Trainyard-Token"  # noqa: S105 - the header's name
ENTER, TICKET, STATIC = "/enter", "/ticket", "/static/"
TICKET_SECONDS = 60.0
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
CLOSED = "403: this page needs a token. Open the address that `trainyard ui` printed.\n"
STRANGE = "403: this page answers only requests to {} and from itself.\n"
DOOR = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="/static/icon.svg">'
    f'<script src="/static/enter.js" defer></script><title>Trainyard</title><p>{CLOSED}</p></html>'
)
"""An empty page. Its script requests the content with the token; without a token, the text stays."""


@dataclass(frozen=True)
class Guard:
    """Passes requests with the token to 127.0.0.1 or localhost at this port, and adds HEADERS to responses."""

    app: ASGIApp
    token: str
    port: int
    once: set[str] = field(default_factory=set)
    """Tokens for a browser's command line, which all users can read. Each one is exchanged for `token` once."""
    tickets: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Path and expiry of tickets. A ticket allows one download, because downloads carry no header."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            answer = self._refusal(scope) or self._own(scope) or self.app
            await answer(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        """Return why the request is not answered, or None."""
        headers = Headers(scope=scope)
        hosts = (f"127.0.0.1:{self.port}", f"localhost:{self.port}")
        if headers.getlist("host") not in ([hosts[0]], [hosts[1]]):
            return PlainTextResponse(STRANGE.format(hosts[0]), 403)
        reads = scope["method"] in READS
        if reads and (scope["path"].startswith(STATIC) or self._takes_ticket(scope)):
            return None
        given = headers.getlist(TOKEN_HEADER)
        if not (len(given) == 1 and (self._is_token(given[0]) or self._is_entry(scope, given[0]))):
            navigates = reads and "text/html" in headers.get("accept", "")
            return HTMLResponse(DOOR) if navigates else PlainTextResponse(CLOSED, 403)
        if reads:
            return None
        if scope["method"] != "POST":
            return PlainTextResponse(
                "405: use GET to read and POST to act\n", 405, {"Allow": "GET, HEAD, POST"}
            )
        ours = headers.getlist("origin") == [f"http://{headers['host']}"]
        return None if ours else PlainTextResponse(STRANGE.format(hosts[0]), 403)

    def _own(self, scope: Scope) -> Response | None:
        """Answer an entry with the token, and a ticket request with a ticket for the path in its query."""
        if (scope["method"], scope["path"]) == ("POST", ENTER):
            self.once.discard(Headers(scope=scope)[TOKEN_HEADER])
            return PlainTextResponse(self.token)
        if (scope["method"], scope["path"]) == ("POST", TICKET):
            now, ticket = time.monotonic(), secrets.token_urlsafe(32)
            for over in [name for name, (_, ends) in self.tickets.items() if ends < now]:
                del self.tickets[over]
            path = QueryParams(scope["query_string"]).get("path", "")
            self.tickets[ticket] = (path, now + TICKET_SECONDS)
            return PlainTextResponse(ticket)
        return None

    def _takes_ticket(self, scope: Scope) -> bool:
        ticket = QueryParams(scope["query_string"]).get("ticket", "")
        path, ends = self.tickets.get(ticket, ("", 0.0))
        if path != scope["path"] or time.monotonic() > ends:
            return False
        del self.tickets[ticket]
        return True

    def _is_entry(self, scope: Scope, given: str) -> bool:
        return (scope["method"], scope["path"]) == ("POST", ENTER) and given in self.once

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self.token.encode())


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sending
