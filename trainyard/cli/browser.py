"""Open a page of this computer in the user's browser."""

from __future__ import annotations

import atexit
import html
import os
import tempfile
import time
import webbrowser
from pathlib import Path

READ_SECONDS = 60.0
"""How long a browser has to start and read the file."""
REDIRECT = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
    '<meta http-equiv="refresh" content="0;url={0}"><title>Trainyard</title>'
    '<p><a href="{0}">Open the page</a></p></html>\n'
)


def open_page(address: str) -> None:
    """Open the address through a file that redirects to it, and remove the file.

    Every account of this computer can read the command line of a browser, and the address contains a token. Only the
    user can read the file.
    """
    path = _write_private(REDIRECT.format(html.escape(address)))
    atexit.register(path.unlink, missing_ok=True)
    if webbrowser.open(path.as_uri()):
        time.sleep(READ_SECONDS)
    path.unlink(missing_ok=True)


def _write_private(text: str) -> Path:
    """Write into the home folder: browsers in a sandbox (snap, Flatpak) read neither /tmp nor hidden folders."""
    home = Path.home()
    folder = home if os.access(home, os.W_OK) else None
    handle, name = tempfile.mkstemp(prefix="trainyard-page-", suffix=".html", dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)
