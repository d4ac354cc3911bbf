"""Work that nobody waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable


def in_background(name: str, work: Callable[[], None]) -> None:
    """Do it in a thread of its own, which ends with the server."""
    threading.Thread(target=work, name=name, daemon=True).start()
