"""Who may see the page: whoever has the address that the command printed, from this computer, and nobody's other page.

The address has a token; with it comes a cookie, and without either every answer is 403. `Host` must be ours, so that no
name that somebody points at 127.0.0.1 is (DNS rebinding). What changes anything is a POST that our own page sent.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode

from markupsafe import escape
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

READS = ("GET", "HEAD")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
CLOSED = "403: this page is for whoever started it. Open the address that `trainyard ui` printed, with its token.\n"
STRANGE = "403: this page answers as {} alone, and not what another page sends.\n"


@dataclass(frozen=True)
class Guard:
    """Lets through what has the token, sent to 127.0.0.1 or localhost at this port; adds the headers above."""

    app: ASGIApp
    token: str
    port: int
    once: set[str] = field(default_factory=set)
    """Tokens that open the page for the first who comes with one: a browser's command line can be read by everybody
    on this computer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            answer = self._refusal(scope) or self._entry(scope) or self.app
            await answer(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        """Why not; None where nothing speaks against it."""
        headers = Headers(scope=scope)
        hosts = (f"127.0.0.1:{self.port}", f"localhost:{self.port}")
        if headers.getlist("host") not in ([hosts[0]], [hosts[1]]):
            return PlainTextResponse(STRANGE.format(hosts[0]), 403)
        if not (self._has_cookie(headers) or self._has_token(scope)):
            return PlainTextResponse(CLOSED, 403)
        if scope["method"] in READS:
            return None
        if scope["method"] != "POST":
            return PlainTextResponse("405: GET shows, POST does\n", 405, {"Allow": "GET, HEAD, POST"})
        ours = headers.get("origin") == f"http://{headers['host']}" and self._has_cookie(headers)
        return None if ours else PlainTextResponse(STRANGE.format(hosts[0]), 403)

    def _entry(self, scope: Scope) -> Response | None:
        """What answers an address with the token: the cookie, and a page that goes on without the token, so that it is
        neither in the history nor on a screenshot. A redirect would not do: where a page of elsewhere links to us, a
        browser sends no SameSite=Strict cookie along with it."""
        if not self._has_token(scope):
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"))
        self.once.discard(query.pop("token")[0])
        there = "/" + scope["path"].lstrip("/") + (f"?{urlencode(query, doseq=True)}" if query else "")
        entry = HTMLResponse(
            f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(there)}">'
            '<link rel="icon" href="/static/icon.svg"><title>Trainyard</title>',
            headers={"Cache-Control": "no-store"},
        )
        entry.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
        return entry

    @property
    def cookie(self) -> str:
        """Its name: browsers do not tell ports apart, and two yards may be looked at."""
        return f"trainyard-{self.port}"

    def _has_cookie(self, headers: Headers) -> bool:
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except CookieError:
            return False
        return self.cookie in cookies and self._is_token(cookies[self.cookie].value)

    def _has_token(self, scope: Scope) -> bool:
        told = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return (
            scope["method"] in READS and len(told) == 1 and (self._is_token(told[0]) or told[0] in self.once)
        )

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
