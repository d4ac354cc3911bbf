"""Clients for the page of a canned yard, and its server for browsers."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from tests.unit.ui.canned import Cloud
from trainyard.ui.app import app
from trainyard.ui.security import TOKEN_HEADER
from trainyard.ui.templating import Templates

TOKEN, ONCE, PORT = "a-token-that-nobody-guesses", "another", 8780
HERE = f"http://127.0.0.1:{PORT}"


def stranger(cloud: Cloud) -> TestClient:
    """Return a client without the token. Event streams end after their first pass."""
    closing = asyncio.Event()
    closing.set()
    served = app(cloud.yard, Templates("Trainyard", "123456789012"), TOKEN, PORT, closing, (ONCE,))
    return TestClient(served, base_url=HERE, follow_redirects=False)


def owner(cloud: Cloud) -> TestClient:
    """Return a client with the token in the header, as the page's script sends it."""
    client = stranger(cloud)
    client.headers[TOKEN_HEADER] = TOKEN
    return client


def post(client: TestClient, path: str, **form: str) -> Any:
    """Post as a form of the page does."""
    return client.post(path, data=form, headers={"origin": HERE})


@contextmanager
def canned(module: str = "canned", *arguments: str) -> Iterator[str]:
    """Serve canned pages; yield the address with its token."""
    words = [sys.executable, "-m", f"tests.unit.ui.{module}", *(arguments or ("12", "40"))]
    served = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])
    assert served.stdout
    try:
        yield served.stdout.readline().strip()
    finally:
        served.terminate()
        served.communicate(timeout=60)


def said(text: str) -> str:
    """Return the text without tags."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))
