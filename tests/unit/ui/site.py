"""The page of a canned yard, as a browser on this computer asks it."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.testclient import TestClient

from tests.unit.ui.canned import Cloud
from trainyard.ui.app import app
from trainyard.ui.security import TOKEN_HEADER
from trainyard.ui.templating import Templates

TOKEN, ONCE, PORT = "a-token-that-nobody-guesses", "another", 8780
HERE = f"http://127.0.0.1:{PORT}"


def stranger(cloud: Cloud) -> TestClient:
    """Somebody without the token. Whatever is streamed ends after its first look."""
    closing = asyncio.Event()
    closing.set()
    served = app(cloud.yard, Templates("Trainyard", "123456789012"), TOKEN, PORT, closing, (ONCE,))
    return TestClient(served, base_url=HERE, follow_redirects=False)


def owner(cloud: Cloud) -> TestClient:
    """The user who opened the address that was printed: the page's script sends this header."""
    client = stranger(cloud)
    client.headers[TOKEN_HEADER] = TOKEN
    return client


def post(client: TestClient, path: str, **form: str) -> Any:
    """As a form of the page sends it."""
    return client.post(path, data=form, headers={"origin": HERE})
